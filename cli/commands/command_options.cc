#include "cli/commands/command_options.h"

#include <charconv>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

namespace paddle::cli {
namespace {

constexpr std::uint32_t kProcessesMax = 4096;
constexpr std::uint32_t kRestartsMax = 1000;
constexpr std::uint32_t kTailLinesMax = 1000000;
constexpr std::uint32_t kTimeoutSecondsMax = 7 * 24 * 3600;

// CLI11's own range check names no valid value for what is no number at all.
CLI::Validator whole_number(std::uint32_t min, std::uint32_t max) {
  return {[min, max](std::string& text) {
            std::uint32_t count = 0;
            const auto [end, error] =
                std::from_chars(text.data(), text.data() + text.size(), count);
            const bool whole = error == std::errc() && end == text.data() + text.size();
            if (whole && count >= min && count <= max) return std::string();
            return fmt::format("'{}' is not a whole number from {} to {}", text, min, max);
          },
          "", ""};
}

void add_node_options(CLI::App& app, const std::string& name, CommandOptions& options) {
  app.add_option("--on", options.on,
                 "only these nodes and groups: gpu,node[01-04],!node02; default: all");
  if (name == "put") {
    app.add_option("files", options.command,
                   "files or folders here, then the path on the nodes: absolute or from $HOME")
        ->type_name("FILE");
  } else if (name == "get") {
    app.add_option("paths", options.command,
                   "the path on the nodes, absolute or from $HOME, then the folder here");
  } else {
    app.add_option("command", options.command,
                   "after --: the program and its arguments, which no shell touches");
    app.add_option("--shell", options.shell, "one text for each node's /bin/sh instead");
    app.add_flag("--stream", options.stream, "show output as it comes, each line with its node");
  }
}

void add_init_options(CLI::App& app, CommandOptions& options) {
  app.add_option("target", options.target,
                 "what to write: a cluster file (cluster.toml), or with --template a folder");
  CLI::Option* const from =
      app.add_option("--template", options.from_template, "a workspace from this template");
  CLI::Option* const hostfile = app.add_option(
      "--hostfile", options.hostfile, "a cluster file from mpirun's or DeepSpeed's hostfile");
  hostfile->type_name("FILE");
  CLI::Option* const local =
      app.add_flag("--local", options.local, "a cluster file for nodes on this machine");
  app.add_flag("--list", options.list, "name the templates");
  from->excludes(hostfile)->excludes(local);
  hostfile->excludes(local);
}

void add_render_options(CLI::App& app, CommandOptions& options) {
  app.add_option("platform", options.platform, "kubernetes, slurm or openmpi")
      ->check(CLI::IsMember({"kubernetes", "slurm", "openmpi"}));
  app.add_option("workspace", options.workspace, "folder with job.toml; default: this one")
      ->type_name("DIR");
  app.add_option("--trainers", options.trainers, "number of trainers; default: 1")
      ->check(whole_number(1, kProcessesMax));
  app.add_option("--pservers", options.pservers, "number of parameter servers; default: 1")
      ->check(whole_number(1, kProcessesMax));
  app.add_option("--set", options.overrides, "override a key of job.toml (repeatable)")
      ->allow_extra_args(false);
  app.add_option("--name", options.job, "the job's name; default: the workspace's");
  app.add_option("--image", options.image, "of kubernetes; any with a shell, awk and getent");
}

}  // namespace

void add_options(CLI::App& app, const std::string& name, CommandOptions& options) {
  if (name == "version" || name == "man") return;
  if (name == "completion") {
    app.add_option("shell", options.shell_name, "bash, zsh or fish")
        ->check(CLI::IsMember({"bash", "zsh", "fish"}));
    return;
  }
  if (name == "render") return add_render_options(app, options);
  if (name == "init") return add_init_options(app, options);
  if (name == "up") {
    app.add_option("cluster", options.cluster, "the cluster file, like clusters/local.toml")
        ->type_name("FILE");
  }
  if (name != "up") {
    app.add_option("--cluster", options.cluster,
                   "cluster file; default: the one `up` used in this directory")
        ->type_name("FILE");
  }
  if (name == "up" || name == "check" || name == "trust" || name == "status" || name == "logs" ||
      name == "metrics") {
    app.add_option("--on", options.on, "only these nodes and groups: gpu,node[01-04],!node02");
  }
  if (name == "trust") {
    app.add_option("host", options.host,
                   "a host as ssh knows it, or a node of the cluster; default: every node");
    app.add_option("--fingerprint", options.fingerprints,
                   "trust only a key with this fingerprint (repeatable)")
        ->allow_extra_args(false);
    app.add_flag("--yes", options.yes, "trust whatever is shown; only on a network you trust");
  }
  if (name == "exec" || name == "put" || name == "get") {
    add_node_options(app, name, options);
    return;
  }
  if (name == "train" || name == "plan") {
    app.add_option("workspace", options.workspace, "folder with job.toml; default: this one")
        ->type_name("DIR");
    app.add_option("--trainers", options.trainers,
                   "number of trainers; default: one on each node with the role, or its `capacity`")
        ->check(whole_number(1, kProcessesMax));
    app.add_option("--pservers", options.pservers,
                   "number of parameter servers; default: one on each node with the role")
        ->check(whole_number(1, kProcessesMax));
    app.add_option("--set", options.overrides,
                   "override a key of job.toml: --set train.passes=3 (repeatable)")
        ->allow_extra_args(false);
  }
  if (name == "train") {
    app.add_option("--name", options.job, "the job's name; default: <workspace>-<UTC time>");
    app.add_flag("--dry-run", options.dry_run, "the same as paddlectl plan; starts nothing");
    app.add_option("--env", options.environment,
                   "KEY=VALUE for every process of the job (repeatable)")
        ->allow_extra_args(false);
    app.add_option(
           "--restarts", options.restarts,
           "start a process that fails again, up to so many times, and the job with it from "
           "its last snapshot; default: 0")
        ->check(whole_number(0, kRestartsMax));
    app.add_flag("--resume", options.resume,
                 "go on with a job from its last snapshot: the latest, or the one of --name");
    app.add_flag("--detach", options.detach, "return when the trainers run");
  } else if (name == "rm") {
    app.add_option("jobs", options.jobs, "jobs that have ended");
  } else if (name == "report") {
    app.add_option("job", options.job, "the job; default: the latest");
  } else if (name != "up" && name != "teardown" && name != "plan" && name != "trust" &&
             name != "check") {
    app.add_option("--job", options.job, "the job; default: the latest");
  }
  if (name == "train" || name == "attach" || name == "fetch" || name == "report") {
    app.add_option("--output", options.output, "folder for results; default: output")
        ->type_name("DIR");
  }
  if (name == "metrics") {
    app.add_option("--format", options.format, "json or prometheus")
        ->check(CLI::IsMember({"json", "prometheus"}));
  }
  if (name == "logs" || name == "metrics") {
    app.add_flag("-f,--follow", options.follow, "go on until the job ends");
    app.add_option("--node", options.node, "only this node");
    app.add_option("--role", options.role, "pserver, trainer, or one process like trainer-2");
  }
  if (name == "logs") {
    CLI::Option* const tail =
        app.add_option("--tail", options.tail, "only the last N lines of each log")
            ->check(whole_number(0, kTailLinesMax));
    app.add_option("--since", options.since,
                   "only what was written since: 90s, 10m, 2h, 1d ago, or 2026-01-31T12:00:00Z")
        ->excludes(tail);
    app.add_option("--grep", options.grep,
                   "only lines that match this extended regular expression");
  }
  if (name == "status") {
    app.add_flag("-w,--watch", options.watch, "look again every 2 seconds until the job ends");
  }
  if (name == "stop") {
    app.add_flag("--now", options.now, "end its processes at once, without a snapshot");
  }
  if (name == "restart") {
    app.add_option("process", options.process, "one process, like trainer-2; default: all");
  }
  if (name == "teardown")
    app.add_flag("--keep-data", options.keep_data, "keep the jobs' snapshots on the nodes");
}

void add_global_options(CLI::App& app, GlobalOptions& global) {
  app.add_flag("--json", global.json,
               "results as JSON on stdout, an error as one JSON line on stderr; notes stay text");
  app.add_flag("--version", global.version, "print the version");
  app.add_option("--password-file", global.password_file,
                 "log in with the password in this file (mode 0600) where no key is accepted; "
                 "without it you are asked")
      ->type_name("FILE");
  app.add_option("--timeout", global.timeout,
                 "give a node up that is not reached, or does not answer, for so many seconds; of "
                 "exec also the command's time; default: 20 to reach it, 30 for an answer")
      ->type_name("SECONDS")
      ->check(whole_number(1, kTimeoutSecondsMax));
  app.add_option("--parallel", global.parallel, "nodes worked on at a time; default: 32")
      ->type_name("NODES")
      ->check(whole_number(1, kProcessesMax));
  app.fallthrough();
}

}  // namespace paddle::cli
