// What `logs` and `metrics` have in common: which processes, and reading to the end or for ever.
#pragma once

#include <functional>
#include <string>

#include "cli/cluster/cluster_session.h"
#include "cli/commands/commands.h"
#include "cli/logs/follow.h"

namespace paddle::cli {

// By --node and --role: "pserver" and "trainer" are roles, "trainer-2" is one process.
bool is_chosen(const ProcessOnNode& process, const std::string& node_name,
               const CommandOptions& options);
// kUsage when --node names none of the cluster.
Status check_node(const ClusterSpec& cluster, const CommandOptions& options);

// Prints every line in its turn: of what is there, or with --follow until the job ends.
Status print_all(Context& context, ClusterSession& session, LogFollow& logs, const std::string& job,
                 const CommandOptions& options, Duration period,
                 const std::function<void(const LogMerge::Line&)>& print);

}  // namespace paddle::cli
