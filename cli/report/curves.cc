#include "cli/report/curves.h"

#include <algorithm>
#include <cmath>
#include <functional>

namespace paddle::cli {
namespace {

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
  const auto steps = steps_of(process.metrics);
  // A pass shorter than log_period leaves no more than the line of its end.
  const bool logs =
      std::ranges::any_of(steps, [](const StepOfLine& at) { return at.line->kind == "train"; });
  for (const StepOfLine& at : steps) {
    const MetricsLine& line = *at.line;
    if (line.kind != (logs ? "train" : "pass")) continue;
    const auto current = line.number("current_cost");
    if (const auto cost = current ? current : line.cost) {
      curve.cost.emplace_back(static_cast<double>(at.step), *cost);
    }
    if (const auto rate = line.number("examples_per_second")) {
      const auto ms = static_cast<double>(line.unix_ms - process.begun_unix_ms);
      curve.rate.emplace_back(ms / 1000, *rate);
    }
  }
  for (const auto& [pass, trained] : pass_samples(process.metrics))
    curve.samples += trained.samples;
  curve.mean_rate = mean_of(process.metrics, "examples_per_second");
  curve.mean_busy = mean_of(process.metrics, "examples_per_busy_second");
  return curve;
}

}  // namespace

std::map<std::uint64_t, PassSamples> pass_samples(const std::vector<MetricsLine>& metrics) {
  std::map<std::uint64_t, PassSamples> passes;
  double before = 0;  // of the pass, by runs that ended in it
  const MetricsLine* last = nullptr;
  for (const MetricsLine& line : metrics) {
    if (line.kind != "train" && line.kind != "pass" && line.kind != "stop") continue;
    const bool same_pass = last != nullptr && last->pass == line.pass;
    const bool is_new_run = same_pass && line.samples < last->samples;
    if (!same_pass) before = 0;
    // One that goes back to a batch trains again what came after it.
    if (is_new_run) {
      before = line.batch > last->batch ? before + static_cast<double>(last->samples) : 0;
    }
    PassSamples& pass = passes[line.pass];
    pass.samples = before + static_cast<double>(line.samples);
    pass.is_split = (same_pass && pass.is_split) || before > 0;
    last = &line;
  }
  return passes;
}

Points thinned(Points points) {
  std::erase_if(points, [](const auto& point) {
    return !std::isfinite(point.first) || !std::isfinite(point.second);
  });
  if (points.size() <= kPointsMax) return points;
  Points kept{points.front()};
  const std::size_t runs = (kPointsMax - 2) / 2;
  for (std::size_t run = 0; run < runs; ++run) {
    const auto begin = points.begin() + static_cast<std::ptrdiff_t>(run * points.size() / runs);
    const auto end = points.begin() + static_cast<std::ptrdiff_t>((run + 1) * points.size() / runs);
    const auto [low, high] = std::minmax_element(
        begin, end, [](const auto& a, const auto& b) { return a.second < b.second; });
    kept.push_back(std::min(*low, *high));
    if (low != high) kept.push_back(std::max(*low, *high));
  }
  kept.push_back(points.back());
  return kept;
}

std::vector<TrainerCurve> trainer_curves(const JobRecord& record) {
  std::vector<TrainerCurve> curves;
  for (const ProcessRecord& process : record.processes) {
    if (process.is_trainer()) curves.push_back(curve_of(process));
  }
  return curves;
}

std::vector<const TrainerCurve*> spread_by_rate(const std::vector<TrainerCurve>& curves,
                                                std::size_t room) {
  std::vector<const TrainerCurve*> all;
  for (const TrainerCurve& curve : curves) all.push_back(&curve);
  if (all.size() <= room) return all;
  std::ranges::stable_sort(all, std::greater(), [](const TrainerCurve* c) { return c->mean_rate; });
  std::vector<const TrainerCurve*> some;
  for (std::size_t i = 0; i < room; ++i) some.push_back(all[i * (all.size() - 1) / (room - 1)]);
  return some;
}

std::vector<SlowTrainer> slow_trainers(const std::vector<TrainerCurve>& curves) {
  std::vector<TrainerRate> rates;
  for (const TrainerCurve& curve : curves) {
    TrainerRate rate{curve.process->node, curve.process->role, {}, {}};
    if (curve.mean_rate > 0) rate.wall = curve.mean_rate;
    if (curve.mean_busy > 0) rate.busy = curve.mean_busy;
    rates.push_back(std::move(rate));
  }
  return slow_trainers(rates);
}

const ProcessRecord* leader_of(const JobRecord& record) {
  const auto found = std::ranges::find(record.processes, "trainer-0", &ProcessRecord::role);
  return found == record.processes.end() ? nullptr : &*found;
}

}  // namespace paddle::cli
