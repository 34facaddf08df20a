#include "cli/report/curves.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include <fmt/format.h>

#include "cli/console/console.h"
#include "cli/console/time_text.h"

namespace paddle::cli {
namespace {

constexpr std::size_t kEvaluatorsMax = 8;

double mean_of(const std::vector<MetricsLine>& lines, std::string_view key) {
  double sum = 0;
  std::size_t count = 0;
  for (const MetricsLine& line : lines) {
    const bool trains = line.kind == "train" || line.kind == "pass";
    const auto value = trains ? line.number(key) : std::nullopt;
    if (!value || !std::isfinite(*value)) continue;
    sum += *value;
    ++count;
  }
  return count == 0 ? 0 : sum / static_cast<double>(count);
}

TrainerCurve curve_of(const ProcessRecord& process) {
  TrainerCurve curve;
  curve.process = &process;
  curve.cost.name = curve.rate.name = process.role;
  const auto steps = steps_of(process.metrics);
  // A pass shorter than log_period leaves only the line of its end.
  const bool logs =
      std::ranges::any_of(steps, [](const StepOfLine& at) { return at.line->kind == "train"; });
  for (const StepOfLine& at : steps) {
    const MetricsLine& line = *at.line;
    if (line.kind == "pass") curve.samples += static_cast<double>(line.samples);
    if (line.kind != (logs ? "train" : "pass")) continue;
    const auto current = line.number("current_cost");
    if (const auto cost = current ? current : line.cost) {
      curve.cost.points.emplace_back(static_cast<double>(at.step), *cost);
    }
    if (const auto rate = line.number("examples_per_second")) {
      const auto ms = static_cast<double>(line.unix_ms - process.started_unix_ms);
      curve.rate.points.emplace_back(ms / 1000, *rate);
    }
  }
  curve.mean_rate = mean_of(process.metrics, "examples_per_second");
  curve.mean_busy = mean_of(process.metrics, "examples_per_busy_second");
  return curve;
}

// At most `room` of them: all, or else the fastest, some between, and the slowest.
std::vector<const TrainerCurve*> chosen(const std::vector<TrainerCurve>& curves, std::size_t room) {
  std::vector<const TrainerCurve*> all;
  for (const TrainerCurve& curve : curves) all.push_back(&curve);
  if (all.size() <= room) return all;
  std::ranges::stable_sort(all, std::greater(), [](const TrainerCurve* c) { return c->mean_rate; });
  std::vector<const TrainerCurve*> some;
  for (std::size_t i = 0; i < room; ++i) some.push_back(all[i * (all.size() - 1) / (room - 1)]);
  return some;
}

std::vector<std::string> evaluators_of(const ProcessRecord* leader) {
  std::vector<std::string> names;
  if (leader == nullptr) return names;
  for (const MetricsLine& line : leader->metrics) {
    if (line.kind != "test") continue;
    for (const auto& [name, value] : line.evaluators()) {
      const bool is_new = std::ranges::find(names, name) == names.end();
      if (is_new && names.size() < kEvaluatorsMax) names.push_back(name);
    }
  }
  return names;
}

// status's rule, over the whole job.
std::vector<SlowTrainer> slow_of(const std::vector<TrainerCurve>& curves, bool busy) {
  std::vector<ProcessView> views;
  for (const TrainerCurve& curve : curves) {
    ProcessView view;
    view.node = curve.process->node;
    view.status.name = curve.process->role;
    view.status.state = remote::ProcessState::kRunning;
    if (curve.mean_rate > 0) view.usual_rate = curve.mean_rate;
    if (busy) view.usual_busy_rate = curve.mean_busy;
    views.push_back(std::move(view));
  }
  return slow_trainers(views);
}

}  // namespace

std::vector<TrainerCurve> trainer_curves(const JobRecord& record) {
  std::vector<TrainerCurve> curves;
  for (const ProcessRecord& process : record.processes) {
    if (process.is_trainer()) curves.push_back(curve_of(process));
  }
  return curves;
}

const ProcessRecord* leader_of(const JobRecord& record) {
  const auto found = std::ranges::find(record.processes, "trainer-0", &ProcessRecord::role);
  return found == record.processes.end() ? nullptr : &*found;
}

Series held_out(const ProcessRecord* leader, const std::string& evaluator) {
  Series series{evaluator.empty() ? "held-out" : evaluator, {}, evaluator.empty()};
  if (leader == nullptr) return series;
  for (const StepOfLine& at : steps_of(leader->metrics)) {
    if (at.line->kind != "test") continue;
    const auto value = evaluator.empty() ? at.line->cost : at.line->number(evaluator);
    if (value) series.points.emplace_back(static_cast<double>(at.step), *value);
  }
  return series;
}

std::string curve_figures(const JobRecord& record, const std::vector<TrainerCurve>& curves) {
  const ProcessRecord* const leader = leader_of(record);
  LineChart cost{"Cost", "batches", "since the line before; dots: on held-out data", {}, false};
  LineChart rate{"Throughput", "seconds since the start", "examples/s of a trainer", {}, true};
  for (const TrainerCurve* curve : chosen(curves, kSeriesMax - 1)) {
    cost.series.push_back(curve->cost);
    rate.series.push_back(curve->rate);
  }
  cost.series.push_back(held_out(leader, ""));
  std::string html = line_chart(cost) + line_chart(rate);
  for (const std::string& name : evaluators_of(leader)) {
    html += line_chart({name, "batches", "on held-out data", {held_out(leader, name)}, false});
  }
  return "<div class=\"charts\">" + html + "</div>\n";
}

std::string bar_figures(const JobRecord& record, const std::vector<TrainerCurve>& curves) {
  const bool busy = !curves.empty() && std::ranges::all_of(curves, [](const TrainerCurve& curve) {
    return curve.mean_busy > 0;
  });
  const std::vector<SlowTrainer> slow = slow_of(curves, busy);
  std::vector<Bar> rates, memory, processor;
  for (const TrainerCurve& curve : curves) {
    const double shown = busy ? curve.mean_busy : curve.mean_rate;
    if (shown <= 0) continue;
    const std::string& role = curve.process->role;
    const bool marked = std::ranges::find(slow, role, &SlowTrainer::role) != slow.end();
    rates.push_back({curve.process->node + "/" + role, short_number(shown), shown, marked});
  }
  for (const ProcessRecord& process : record.processes) {
    const std::string name = process.node + "/" + process.role;
    if (process.resident_bytes > 0) {
      memory.push_back({name, human_bytes(static_cast<std::uint64_t>(process.resident_bytes)),
                        process.resident_bytes, false});
    }
    if (process.cpu_ms > 0) {
      processor.push_back(
          {name, span_text(static_cast<std::int64_t>(process.cpu_ms)), process.cpu_ms, false});
    }
  }
  std::string notes;
  for (const SlowTrainer& one : slow) {
    notes += fmt::format("<p class=\"bad\">{}</p>", html_text(describe(one)));
  }
  return notes + "<div class=\"charts\">" +
         bar_chart(busy ? "Examples/s while not waiting for others" : "Examples/s", rates) +
         bar_chart("Memory (peak, of those that ended)", memory) +
         bar_chart("Processor time", processor) + "</div>\n";
}

}  // namespace paddle::cli
