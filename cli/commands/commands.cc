#include "cli/commands/commands.h"

namespace paddle::cli {

// Each is defined in the file with its name, or in a file whose first comment names it.
Command init_command(), up_command(), check_command(), trust_command(), cluster_command(),
    train_command(), sweep_command(), wait_command(), plan_command(), attach_command(),
    status_command(), jobs_command(), dashboard_command(), logs_command(), metrics_command(),
    report_command(), compare_command(), fetch_command(), test_command(), stop_command(),
    restart_command(), rm_command(), teardown_command(), exec_command(), put_command(),
    get_command(), render_command(), help_command(), completion_command(), man_command();

namespace {

struct Group {
  std::string_view name;
  std::vector<Command> commands;
};

std::vector<Command> in_groups(std::vector<Group> groups) {
  std::vector<Command> all;
  for (Group& group : groups) {
    for (Command& command : group.commands) {
      command.group = group.name;
      all.push_back(command);
    }
  }
  return all;
}

}  // namespace

const std::vector<Command>& all_commands() {
  static const std::vector<Command> kCommands = in_groups({
      {"Set up",
       {init_command(), up_command(), check_command(), trust_command(), cluster_command(),
        teardown_command()}},
      {"Run",
       {plan_command(), train_command(), sweep_command(), attach_command(), wait_command(),
        stop_command(), restart_command(), rm_command()}},
      {"Look",
       {status_command(), jobs_command(), dashboard_command(), logs_command(), metrics_command(),
        report_command(), compare_command(), fetch_command(), test_command()}},
      {"Nodes", {exec_command(), put_command(), get_command()}},
      {"Other",
       {render_command(), help_command(), completion_command(), man_command(), version_command()}},
  });
  return kCommands;
}

}  // namespace paddle::cli
