// The processes that `logs` and `metrics` read, and the loop that prints their lines.
#pragma once

#include <functional>
#include <string>

#include "cli/logs/follow.h"
#include "cli/options/job_target.h"

namespace paddle::cli {

struct LogChoice {
  JobTarget target;
  bool follow = false;
  std::string node;  // "": all
  std::string role;  // "pserver" and "trainer" are roles, "trainer-2" is one process; "": all
};
OptionList log_choice_options(LogChoice& choice);

bool is_chosen(const ProcessOnNode& process, const std::string& node_name, const LogChoice& choice);
// kUsage when --node names no node of the cluster.
Status check_node(Context& context, const LogChoice& choice);

// Prints the lines in order of time: all there are, or with --follow until the job ends.
Status print_all(Context& context, FoundJob& job, LogFollow& logs, const LogChoice& choice,
                 Duration period, const std::function<void(const LogMerge::Line&)>& print);

}  // namespace paddle::cli
