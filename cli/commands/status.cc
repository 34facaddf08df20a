#include <algorithm>
#include <tuple>

#include <fmt/format.h>

#include "cli/cluster_session.h"
#include "cli/commands/commands.h"
#include "cli/current_cluster.h"
#include "cli/job_watch.h"
#include "cli/json.h"

namespace paddle::cli {
namespace {

// The last numbers in a trainer's metrics, or nothing yet.
std::optional<MetricsPoint> last_point(remote::AgentClient& client, const std::string& path) {
  LogReader reader(path);
  const auto lines = reader.tail(client, kLastLinesShown);
  if (!lines) return std::nullopt;
  std::optional<MetricsPoint> last;
  for (const std::string& line : *lines) {
    auto point = parse_metrics(line);
    if (!point || point->test) continue;
    // The line that ends a pass has no rate of its own.
    if (last && !point->examples_per_second) point->examples_per_second = last->examples_per_second;
    last = point;
  }
  return last;
}

}  // namespace

Status run_status(Context& context, const CommandOptions& options) {
  PADDLE_TRY(const ClusterSpec cluster, choose_cluster(context.directory, options.cluster));
  ClusterSession session = ClusterSession::find_all(context, cluster);
  PADDLE_TRY(const std::string job, choose_job(session, options.job));
  auto processes = session.processes(job);
  // pserver-2 before pserver-10: a shorter name of the same kind has the lower number.
  std::ranges::stable_sort(processes, {}, [](const ProcessOnNode& p) {
    return std::tuple(!is_pserver(p.status), p.status.name.size(), p.status.name);
  });
  Table table{{{"node", "node"},
               {"role", "role"},
               {"state", "state"},
               {"pid", "pid"},
               {"pass", "pass"},
               {"batch", "batch"},
               {"cost", "cost"},
               {"examples/s", "examples_per_second"}},
              {}};
  for (const ProcessOnNode& process : processes) {
    Member& member = session.members()[process.member];
    const remote::ProcessStatus& status = process.status;
    const bool runs = status.state == remote::ProcessState::kRunning;
    std::vector<Cell> row = {
        text_cell(member.spec.name), text_cell(status.name), text_cell(describe_state(status)),
        runs ? number_cell(static_cast<std::uint64_t>(status.pid)) : empty_cell()};
    std::optional<MetricsPoint> point;
    if (!is_pserver(status) && member.client)
      point = last_point(*member.client, metrics_path(status.log));
    if (point) {
      const auto rate = point->examples_per_second;
      row.insert(row.end(),
                 {number_cell(point->pass), number_cell(point->batch), number_cell(point->cost, 4),
                  rate ? number_cell(*rate, 0) : empty_cell()});
    }
    row.resize(table.columns.size(), empty_cell());
    table.rows.push_back(std::move(row));
  }
  if (context.console.json()) {
    context.console.raw(json_object({{"job", json_string(job)}, {"processes", to_json(table)}}) +
                        "\n");
  } else {
    context.console.note("job " + job);
    context.console.table(table);
  }
  return session.all_well();
}

}  // namespace paddle::cli
