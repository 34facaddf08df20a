#include "cli/commands/commands.h"

#include <array>

namespace paddle::cli {

std::span<const Command> all_commands() {
  static constexpr std::array<Command, 23> kCommands = {{
      {"init", "write a cluster file to edit, or a workspace from a template",
       "  paddlectl init\n"
       "  paddlectl init lab.toml --hostfile hosts\n"
       "  paddlectl init --template word2vec my-vectors",
       run_init},
      {"up", "reach, check and prepare every node of a cluster",
       "  paddlectl up clusters/local.toml\n"
       "  paddlectl up lab.toml --json",
       run_up},
      {"check",
       "look for what would stop a job: machines, ports, leftovers, and links between nodes",
       "  paddlectl check\n"
       "  paddlectl check --cluster lab.toml --on rack1\n"
       "  paddlectl check --json",
       run_check},
      {"trust", "show the host keys of nodes that are not known yet and, once asked, accept them",
       "  paddlectl trust --cluster lab.toml\n"
       "  paddlectl trust gpu-1.lab --fingerprint SHA256:uNiVztksCsDhcc0u9e8BrQXvUpQcK...\n"
       "  paddlectl trust --on rack1 --yes",
       run_trust},
      {"train",
       "push a workspace, start pservers and trainers, follow them, bring the results home",
       "  paddlectl train --trainers 4 --pservers 2 templates/word2vec\n"
       "  paddlectl train --set train.passes=10 --name long-run --detach templates/word2vec\n"
       "  paddlectl train --resume --name long-run templates/word2vec",
       run_train},
      {"plan", "print which block of which parameter would go to which node and port",
       "  paddlectl plan --pservers 2 templates/word2vec\n"
       "  paddlectl plan --set strategy.placement=size_balanced --json",
       run_plan},
      {"attach", "follow a running job; when it ends, bring the results home",
       "  paddlectl attach\n"
       "  paddlectl attach --job word2vec-20260101-120000",
       run_attach},
      {"status", "the processes of a job, how far it is, what it uses, and who is slow",
       "  paddlectl status\n"
       "  paddlectl status --watch\n"
       "  paddlectl status --json",
       run_status},
      {"logs", "the logs of a job in order of time, each line with its node and role",
       "  paddlectl logs -f\n"
       "  paddlectl logs --since 10m --grep 'warn|error'\n"
       "  paddlectl logs --node node-1 --role pserver --tail 50",
       run_logs},
      {"metrics", "the metrics of every process: JSON lines in order of time, or Prometheus' text",
       "  paddlectl metrics -f --role trainer\n"
       "  paddlectl metrics --format prometheus",
       run_metrics},
      {"report", "a page about a job (report.html) and its curves for TensorBoard",
       "  paddlectl report\n"
       "  paddlectl report word2vec-20260101-120000",
       run_report},
      {"fetch", "logs and snapshots of a job into output/<job>/",
       "  paddlectl fetch\n"
       "  paddlectl fetch --job word2vec-20260101-120000 --output results",
       run_fetch},
      {"stop", "let a job save where it is, and end it; its files stay on the nodes",
       "  paddlectl stop\n"
       "  paddlectl stop --now --job word2vec-20260101-120000",
       run_stop},
      {"restart", "let a job save, and start it again from there; or start one process again",
       "  paddlectl restart\n"
       "  paddlectl restart --job word2vec-20260101-120000 trainer-2",
       run_restart},
      {"rm", "remove jobs that have ended, with their snapshots, from the nodes",
       "  paddlectl rm word2vec-20260101-120000", run_rm},
      {"teardown", "end everything of ours on every node and remove it",
       "  paddlectl teardown\n"
       "  paddlectl teardown --cluster lab.toml --keep-data",
       run_teardown},
      {"exec", "run a command on nodes; equal results are shown once",
       "  paddlectl exec -- uname -r\n"
       "  paddlectl exec --on node[01-04] --shell 'dmesg | tail -3'\n"
       "  paddlectl exec --stream --timeout 60 -- nvidia-smi",
       run_exec},
      {"put", "copy files and folders to nodes",
       "  paddlectl put hosts.txt data /srv/\n"
       "  paddlectl put --on node01 model.conf '~/conf/'",
       run_put},
      {"get", "copy a file or folder of nodes here, into one folder a node",
       "  paddlectl get /var/log/syslog logs\n"
       "  paddlectl get --on node[01-04] '~/results' results",
       run_get},
      {"render", "what starts a job on another platform: kubernetes, slurm or openmpi",
       "  paddlectl render slurm --trainers 8 --pservers 2 templates/word2vec > word2vec.sh\n"
       "  paddlectl render openmpi --trainers 4 > run.sh; HOSTS=node1,node2 sh run.sh\n"
       "  paddlectl render kubernetes --image debian:12-slim --name vectors > vectors.yaml",
       run_render},
      {"completion", "a script for your shell that completes commands, options and their values",
       "  source <(paddlectl completion bash)\n"
       "  paddlectl completion zsh > ~/.zfunc/_paddlectl\n"
       "  paddlectl completion fish > ~/.config/fish/completions/paddlectl.fish",
       run_completion},
      {"man", "this manual as a page for man(1)",
       "  paddlectl man > ~/.local/share/man/man1/paddlectl.1\n"
       "  paddlectl man | man -l -",
       run_man},
      {"version", "the version of paddlectl", "  paddlectl version", run_version},
  }};
  return kCommands;
}

}  // namespace paddle::cli
