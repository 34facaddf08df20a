#include <fmt/format.h>

#include "base/text.h"
#include "cli/logs/follow.h"
#include "cli/logs/metrics_line.h"
#include "cli/options/log_choice.h"
#include "cli/report/prometheus.h"

namespace paddle::cli {
namespace {

constexpr auto kFollowPeriod = std::chrono::seconds(1);

struct MetricsOptions {
  LogChoice chosen;
  std::string format = "json";
};

OptionList list_options(MetricsOptions& options) {
  OptionList list = log_choice_options(options.chosen);
  list.push_back({.name = "--format",
                  .help = "json or prometheus",
                  .target = &options.format,
                  .choices = {"json", "prometheus"}});
  return list;
}

// Prints the line as it is, with its node and role before its own fields. Damaged lines, and those
// that would paint a terminal, are left out: a program reads this output.
void print(Context& context, const LogFollow& logs, const LogMerge::Line& line) {
  const std::string& text = line.line.text;
  if (!parse_metrics(text) || escape_control(text) != text) return;
  const LogSource& from = logs.source(line.source);
  const auto brace = text.find('{');
  context.console.raw(fmt::format("{{\"node\":{},\"role\":{},{}\n", Json(from.node).text(),
                                  Json(from.role).text(), text.substr(brace + 1)));
}

LogFollowOptions reading(const MetricsOptions& options) {
  LogFollowOptions reading;
  reading.wanted = [&options](const ProcessOnNode& process, const std::string& node) {
    return is_chosen(process, node, options.chosen);
  };
  reading.path = [](const remote::ProcessStatus& status) { return metrics_path(status.log); };
  reading.time_of = [](const std::string& line) {
    const auto parsed = parse_metrics(line);
    return parsed ? parsed->unix_ms : 0;
  };
  return reading;
}

Status run(Context& context, const MetricsOptions& options) {
  PADDLE_TRY_STATUS(check_node(context, options.chosen));
  PADDLE_TRY(FoundJob found, find_job(context, options.chosen.target, Missing::kAllowed));
  if (options.format == "prometheus") {
    JobView view(found.name);
    view.look(context, found.session);
    context.console.raw(prometheus_text(view));
    return found.session.all_well();
  }
  LogFollow logs(context, found.session, found.name, reading(options));
  return print_all(context, found, logs, options.chosen, kFollowPeriod,
                   [&](const LogMerge::Line& line) { print(context, logs, line); });
}

}  // namespace

Command metrics_command() {
  return {"metrics",
          "print the metrics of every process: JSON lines in order of time, or Prometheus' text",
          "  paddlectl metrics -f --role trainer\n"
          "  paddlectl metrics --format prometheus",
          [] { return invocation(list_options, run); }};
}

}  // namespace paddle::cli
