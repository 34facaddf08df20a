#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "cli/cluster_session.h"
#include "cli/commands/commands.h"
#include "cli/current_cluster.h"
#include "cli/job_watch.h"
#include "cli/json.h"
#include "cli/log_reader.h"

namespace paddle::cli {
namespace {

constexpr std::size_t kFollowTailLines = 20;
constexpr auto kFollowPeriod = std::chrono::milliseconds(500);

// "pserver" and "trainer" are roles; "trainer-2" is one process.
bool wanted(const ProcessOnNode& process, const std::string& node_name,
            const CommandOptions& options) {
  const std::string& name = process.status.name;
  return (options.node.empty() || options.node == node_name) &&
         (options.role.empty() || name == options.role || name.starts_with(options.role + "-"));
}

struct OpenLog {
  std::string node, role;
  LogReader reader;
  bool begun = false;
};

// With --json an object a line, so that a program can follow too.
void print(Context& context, const OpenLog& log, const std::vector<std::string>& lines) {
  for (const std::string& line : lines) {
    if (context.console.json()) {
      context.console.raw(json_object({{"node", json_string(log.node)},
                                       {"role", json_string(log.role)},
                                       {"line", json_string(line)}}) +
                          "\n");
    } else {
      context.console.result(fmt::format("{}/{} | {}", log.node, log.role, line));
    }
  }
}

// Everything that is there now. A missing log is a process that wrote nothing yet.
Status drain(Context& context, remote::AgentClient& client, OpenLog& log, std::int64_t tail) {
  if (!std::exchange(log.begun, true) && tail >= 0) {
    const auto lines = log.reader.tail(client, static_cast<std::size_t>(tail));
    if (lines) print(context, log, *lines);
    if (!lines && lines.error().code == Errc::kUnreachable) return lines.error();
  }
  do {
    if (context.interrupted() || context.console.closed()) return {};
    const auto lines = log.reader.poll(client);
    if (!lines) return lines.error().code == Errc::kUnreachable ? Status(lines.error()) : Status{};
    print(context, log, *lines);
  } while (!log.reader.at_end());
  return {};
}

Status check_node(const ClusterSpec& cluster, const CommandOptions& options) {
  const bool known_node = std::ranges::any_of(
      cluster.nodes, [&](const ClusterNode& node) { return node.spec.name == options.node; });
  if (!options.node.empty() && !known_node) {
    return Error{Errc::kUsage,
                 fmt::format("no node '{}' in cluster '{}'", options.node, cluster.name),
                 "paddlectl status shows the nodes"};
  }
  return {};
}

Error nothing_wanted(const std::string& job, const CommandOptions& options) {
  return {Errc::kUsage,
          fmt::format("job {} has no {}{}", job,
                      options.role.empty() ? "process" : "'" + options.role + "'",
                      options.node.empty() ? "" : " on node " + options.node),
          fmt::format("roles are pserver, trainer, or one process like trainer-2; they are in: "
                      "paddlectl status --job {}",
                      job)};
}

}  // namespace

Status run_logs(Context& context, const CommandOptions& options) {
  PADDLE_TRY(const ClusterSpec cluster, choose_cluster(context.directory, options.cluster));
  PADDLE_TRY_STATUS(check_node(cluster, options));
  ClusterSession session = ClusterSession::find_all(context, cluster);
  PADDLE_TRY(const std::string job, choose_job(session, options.job));
  const std::int64_t tail = options.tail >= 0 ? options.tail
                            : options.follow  ? static_cast<std::int64_t>(kFollowTailLines)
                                              : -1;
  std::map<std::string, OpenLog> logs;
  for (;;) {
    const auto processes = session.processes(job);
    for (const ProcessOnNode& process : processes) {
      Member& member = session.members()[process.member];
      if (!wanted(process, member.spec.name, options)) continue;
      OpenLog fresh{member.spec.name, process.status.name, LogReader(process.status.log)};
      OpenLog& log = logs.try_emplace(process.status.name, std::move(fresh)).first->second;
      if (!member.client) continue;
      PADDLE_TRY_STATUS(drain(context, *member.client, log, tail));
      if (process.status.state != remote::ProcessState::kRunning) {
        if (const std::string rest = log.reader.rest(); !rest.empty()) print(context, log, {rest});
      }
    }
    const bool any_running = std::ranges::any_of(processes, [](const ProcessOnNode& process) {
      return process.status.state == remote::ProcessState::kRunning;
    });
    if (context.console.closed()) return {};
    if (context.interrupted()) return Error{Errc::kInterrupted, "interrupted; the job runs on", ""};
    PADDLE_TRY_STATUS(session.all_well());
    if (logs.empty()) return nothing_wanted(job, options);
    if (!options.follow || !any_running) return {};
    context.pause(kFollowPeriod);
  }
}

}  // namespace paddle::cli
