#include <fmt/format.h>

#include "cli/cluster/cluster_session.h"
#include "cli/cluster/current_cluster.h"
#include "cli/cluster/node_selection.h"
#include "cli/commands/commands.h"
#include "cli/commands/log_choice.h"
#include "cli/console/json.h"
#include "cli/console/time_text.h"
#include "cli/logs/follow.h"
#include "cli/logs/line_pattern.h"

namespace paddle::cli {
namespace {

constexpr std::int64_t kFollowTailLines = 20;
constexpr auto kFollowPeriod = std::chrono::milliseconds(500);

// With --json an object a line, so that a program can follow too.
void print(Context& context, const LogFollow& logs, const LogMerge::Line& line) {
  const LogSource& from = logs.source(line.source);
  if (context.console.json()) {
    context.console.json_line(Json::object({{"node", from.node},
                                            {"role", from.role},
                                            {"unix_ms", line.line.unix_ms},
                                            {"line", line.line.text}}));
    return;
  }
  std::string label = from.node + "/" + from.role;
  const std::size_t width = display_width(label);
  if (width < logs.label_width()) label.append(logs.label_width() - width, ' ');
  context.console.labelled(from.member, label, line.line.text);
}

LogFollowOptions reading(const CommandOptions& options) {
  LogFollowOptions reading;
  reading.since = options.since;
  reading.tail = options.tail;
  if (options.follow && options.tail < 0 && options.since.empty()) reading.tail = kFollowTailLines;
  reading.wanted = [&options](const ProcessOnNode& process, const std::string& node) {
    return is_chosen(process, node, options);
  };
  return reading;
}

}  // namespace

Status run_logs(Context& context, const CommandOptions& options) {
  PADDLE_TRY(const LinePattern pattern, LinePattern::compile(options.grep));
  if (!options.since.empty()) {
    if (auto since = parse_since(options.since, 1); !since) return std::move(since).error();
  }
  PADDLE_TRY(const ClusterSpec cluster, choose_cluster(context.directory, options.cluster));
  PADDLE_TRY_STATUS(check_node(cluster, options));
  PADDLE_TRY(const auto nodes, select_nodes(cluster, options.on));
  ClusterSession session = ClusterSession::find(context, cluster, nodes);
  PADDLE_TRY(const std::string job, choose_job(session, options.job));
  LogFollow logs(context, session, job, reading(options));
  return print_all(context, session, logs, job, options, kFollowPeriod,
                   [&](const LogMerge::Line& line) {
                     if (pattern.matches(line.line.text)) print(context, logs, line);
                   });
}

}  // namespace paddle::cli
