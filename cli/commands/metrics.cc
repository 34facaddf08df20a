#include <fmt/format.h>

#include "base/text.h"
#include "cli/cluster/cluster_session.h"
#include "cli/cluster/current_cluster.h"
#include "cli/cluster/node_selection.h"
#include "cli/commands/commands.h"
#include "cli/commands/log_choice.h"
#include "cli/console/json.h"
#include "cli/logs/follow.h"
#include "cli/logs/metrics_line.h"
#include "cli/report/prometheus.h"

namespace paddle::cli {
namespace {

constexpr auto kFollowPeriod = std::chrono::seconds(1);

// The line as it stands, with where it came from before its own fields. What is no line of metrics
// (a damaged file, or one that would paint the terminal, which our engine never writes) is left
// out: a program reads this.
void print(Context& context, const LogFollow& logs, const LogMerge::Line& line) {
  const std::string& text = line.line.text;
  if (!parse_metrics(text) || escape_control(text) != text) return;
  const LogSource& from = logs.source(line.source);
  const auto brace = text.find('{');
  context.console.raw(fmt::format("{{\"node\":{},\"role\":{},{}\n", Json(from.node).text(),
                                  Json(from.role).text(), text.substr(brace + 1)));
}

LogFollowOptions reading(const CommandOptions& options) {
  LogFollowOptions reading;
  reading.wanted = [&options](const ProcessOnNode& process, const std::string& node) {
    return is_chosen(process, node, options);
  };
  reading.path = [](const remote::ProcessStatus& status) { return metrics_path(status.log); };
  reading.time_of = [](const std::string& line) {
    const auto parsed = parse_metrics(line);
    return parsed ? parsed->unix_ms : 0;
  };
  return reading;
}

}  // namespace

Status run_metrics(Context& context, const CommandOptions& options) {
  PADDLE_TRY(const ClusterSpec cluster, choose_cluster(context.directory, options.cluster));
  PADDLE_TRY_STATUS(check_node(cluster, options));
  PADDLE_TRY(const auto nodes, select_nodes(cluster, options.on));
  ClusterSession session = ClusterSession::find(context, cluster, nodes);
  PADDLE_TRY(const std::string job, choose_job(session, options.job));
  if (options.format == "prometheus") {
    JobView view(job);
    view.look(context, session);
    context.console.raw(prometheus_text(view));
    return session.all_well();
  }
  LogFollow logs(context, session, job, reading(options));
  return print_all(context, session, logs, job, options, kFollowPeriod,
                   [&](const LogMerge::Line& line) { print(context, logs, line); });
}

}  // namespace paddle::cli
