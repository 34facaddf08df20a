#include <algorithm>
#include <tuple>

#include <fmt/format.h>

#include "cli/cluster_session.h"
#include "cli/commands/commands.h"
#include "cli/current_cluster.h"
#include "cli/job_watch.h"

namespace paddle::cli {
namespace {

// The last numbers in a trainer's metrics, or nothing yet.
std::optional<MetricsPoint> last_point(remote::AgentClient& client, const std::string& path) {
  LogReader reader(path);
  const auto lines = reader.tail(client, kLastLinesShown);
  if (!lines) return std::nullopt;
  std::optional<MetricsPoint> last;
  for (const std::string& line : *lines) {
    if (auto point = parse_metrics(line); point && !point->test) last = point;
  }
  return last;
}

}  // namespace

Status run_status(Context& context, const CommandOptions& options) {
  PADDLE_TRY(const ClusterSpec cluster, choose_cluster(context.directory, options.cluster));
  ClusterSession session = ClusterSession::open_all(context, cluster);
  PADDLE_TRY(const std::string job, choose_job(session, options.job));
  auto processes = session.processes(job);
  // pserver-2 before pserver-10: a shorter name of the same kind has the lower number.
  std::ranges::stable_sort(processes, {}, [](const ProcessOnNode& p) {
    return std::tuple(!is_pserver(p.status), p.status.name.size(), p.status.name);
  });
  Table table{{"node", "role", "state", "pid", "pass", "batch", "cost", "examples/s"}, {}};
  for (const ProcessOnNode& process : processes) {
    Member& member = session.members()[process.member];
    const remote::ProcessStatus& status = process.status;
    std::vector<std::string> row = {
        member.spec.name, status.name, describe_state(status),
        status.state == remote::ProcessState::kRunning ? fmt::format("{}", status.pid) : "-"};
    std::optional<MetricsPoint> point;
    if (!is_pserver(status) && member.client)
      point = last_point(*member.client, metrics_path(status.log));
    if (point) {
      row.insert(row.end(), {fmt::format("{}", point->pass), fmt::format("{}", point->batch),
                             fmt::format("{:.4f}", point->cost),
                             fmt::format("{:.0f}", point->examples_per_second)});
    } else {
      row.resize(table.header.size(), "-");
    }
    table.rows.push_back(std::move(row));
  }
  context.console.note("job " + job);
  context.console.table(table);
  return session.all_well();
}

}  // namespace paddle::cli
