// The commands of paddlectl, one file each. command_options.cc fills the options from the command
// line.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cli/cluster/context.h"

namespace CLI {
class App;
}

namespace paddle::cli {

struct CommandOptions {
  std::string cluster;            // --cluster, or up's argument; "": the current one
  std::vector<std::string> jobs;  // of rm
  std::string process;            // of restart; "": the whole job
  std::string job;                // --job or --name; "": the latest, or a new name
  std::string workspace = ".";
  std::string output = "output";
  std::uint32_t trainers = 0;          // 0: as many as the capacity of the nodes with the role
  std::uint32_t pservers = 0;          // 0: one on each node with the role
  std::vector<std::string> overrides;  // --set
  bool detach = false;
  bool dry_run = false;
  bool resume = false;
  std::vector<std::string> environment;  // --env
  std::uint32_t restarts = 0;
  bool follow = false;
  bool keep_data = false;
  bool now = false;           // of stop: without asking first
  std::string on;             // which nodes, as cli/node_selection.h has it; "": all
  std::string host;           // of trust
  std::string target;         // of init: the file or folder to write; "": by default
  std::string from_template;  // of init: which; "": a cluster file
  std::string hostfile;       // of init: what to make the cluster file of; "": the example
  bool local = false;         // of init: the example with nodes on this machine
  bool list = false;          // of init: only name the templates
  std::vector<std::string> fingerprints;
  bool yes = false;
  std::string node, role;
  std::int64_t tail = -1;  // lines; -1: all, or the last 20 with --follow
  std::string since;       // "10m", "2026-01-31T12:00:00Z"; "": no matter
  std::string grep;        // an extended regular expression; "": every line
  bool watch = false;
  std::string format = "json";       // of metrics: json or prometheus
  std::vector<std::string> command;  // of exec: argv; of put and get: paths
  std::string shell;                 // of exec: for the node's /bin/sh, in place of command
  bool stream = false;
  std::string platform;                    // of render
  std::string image;                       // of render, in Kubernetes; "": by default
  std::string shell_name;                  // of completion
  const CLI::App* command_line = nullptr;  // what completion and man describe
};

// Each prints its result; an error is printed by the caller and its code is the exit code.
Status run_up(Context& context, const CommandOptions& options);
Status run_init(Context& context, const CommandOptions& options);
Status run_check(Context& context, const CommandOptions& options);
Status run_trust(Context& context, const CommandOptions& options);
Status run_plan(Context& context, const CommandOptions& options);
Status run_train(Context& context, const CommandOptions& options);
Status run_attach(Context& context, const CommandOptions& options);
Status run_status(Context& context, const CommandOptions& options);
Status run_logs(Context& context, const CommandOptions& options);
Status run_metrics(Context& context, const CommandOptions& options);
Status run_report(Context& context, const CommandOptions& options);
Status run_fetch(Context& context, const CommandOptions& options);
Status run_restart(Context& context, const CommandOptions& options);
Status run_rm(Context& context, const CommandOptions& options);
Status run_stop(Context& context, const CommandOptions& options);
Status run_teardown(Context& context, const CommandOptions& options);
Status run_exec(Context& context, const CommandOptions& options);
Status run_put(Context& context, const CommandOptions& options);
Status run_get(Context& context, const CommandOptions& options);
Status run_render(Context& context, const CommandOptions& options);
Status run_completion(Context& context, const CommandOptions& options);
Status run_man(Context& context, const CommandOptions& options);
Status run_version(Context& context, const CommandOptions& options);

struct Command {
  std::string_view name;
  std::string_view summary;
  std::string_view examples;
  Status (*run)(Context&, const CommandOptions&);
};
std::span<const Command> all_commands();

}  // namespace paddle::cli
