#include "cli/report/curves.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <utility>

#include "base/text.h"

namespace paddle::cli {
namespace {

TrainerCurve curve_of(const ProcessRecord& process) {
  TrainerCurve curve;
  curve.process = &process;
  const auto steps = steps_of(process.metrics);
  // A pass shorter than log_period has only the line at its end.
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
  const auto totals = totals_of(process);
  curve.samples = totals->samples();
  curve.mean_rate = totals->mean_rate();
  curve.mean_busy = totals->mean_busy();
  return curve;
}

// The evaluators.

constexpr std::size_t kEvaluatorsMax = 9;  // with the cost
constexpr std::string_view kCost = "cost";
constexpr std::string_view kOfJob = "total_";

// Parts of the names of evaluators by which people usually compare models; the first one found is
// the headline.
constexpr std::array<std::string_view, 8> kKnownFirst{"auc", "perplexity", "rmse",      "f1",
                                                      "acc", "error",      "precision", "mae"};

// The order of evaluators: known ones, then others with test results, then the cost, and last those
// that only log points of a user's own program have, such as a learning rate.
std::size_t rank_of(const std::string& evaluator, bool is_tested) {
  const std::string name = lower_case(evaluator);
  const auto found = std::ranges::find_if(
      kKnownFirst, [&](std::string_view part) { return name.find(part) != std::string::npos; });
  if (found != kKnownFirst.end()) return static_cast<std::size_t>(found - kKnownFirst.begin());
  if (name == kCost) return kKnownFirst.size() + 1;
  return kKnownFirst.size() + (is_tested ? 0 : 2);
}

std::vector<std::string> names_of(const ProcessRecord& leader) {
  std::vector<std::pair<std::size_t, std::string>> names;
  const auto add = [&](const std::string& name, bool is_tested) {
    const bool is_new =
        std::ranges::find(names, name, &std::pair<std::size_t, std::string>::second) == names.end();
    if (is_new && names.size() < kEvaluatorsMax) names.emplace_back(rank_of(name, is_tested), name);
  };
  add(std::string(kCost), true);
  for (const bool is_tested : {true, false}) {
    for (const MetricsLine& line : leader.metrics) {
      if (line.kind != (is_tested ? "test" : "train")) continue;
      for (const auto& [name, value] : line.evaluators()) add(name, is_tested);
    }
  }
  std::ranges::stable_sort(names, {}, &std::pair<std::size_t, std::string>::first);
  std::vector<std::string> sorted;
  for (auto& [rank, name] : names) sorted.push_back(std::move(name));
  return sorted;
}

// A softmax has both perplexity and errors. A model that is right more often than wrong is judged
// by its errors, and a model that chooses among many words by its perplexity.
void prefer_errors(std::vector<EvaluatorCurves>& all) {
  constexpr double kMostlyRight = 0.5;
  const auto is = [](const EvaluatorCurves& one, std::string_view part) {
    return lower_case(one.name).find(part) != std::string::npos;
  };
  if (all.empty() || !is(all.front(), "perplexity")) return;
  const auto errors = std::ranges::find_if(all, [&](const EvaluatorCurves& one) {
    return is(one, "error") && one.best && one.best->value < kMostlyRight;
  });
  if (errors != all.end()) std::rotate(all.begin(), errors, errors + 1);
}

struct Series {
  Points points;
  std::vector<std::uint64_t> passes;  // the pass of each point

  void add(const StepOfLine& at, std::optional<double> value) {
    if (!value || !std::isfinite(*value)) return;
    points.emplace_back(static_cast<double>(at.step), *value);
    passes.push_back(at.line->pass);
  }
};

Series series_of(const std::vector<StepOfLine>& steps, std::string_view kind,
                 const std::string& key) {
  Series series;
  for (const StepOfLine& at : steps) {
    if (at.line->kind == kind) series.add(at, key == kCost ? at.line->cost : at.line->number(key));
  }
  return series;
}

std::optional<BestValue> best_of(const Series& series, const EvaluatorCurves& of) {
  if (series.points.empty()) return std::nullopt;
  // The lowest is the best.
  const auto rank = [&](const auto& point) {
    if (of.one_is_best) return std::abs(point.second - 1);
    return of.higher_is_better ? -point.second : point.second;
  };
  const auto best = std::ranges::min_element(series.points, {}, rank);
  const auto at = static_cast<std::size_t>(best - series.points.begin());
  return BestValue{best->second, series.passes[at]};
}

EvaluatorCurves curves_of(const std::vector<StepOfLine>& steps, const std::string& name) {
  EvaluatorCurves curves;
  curves.name = name;
  for (const StepOfLine& at : steps) {
    if (!at.line->number(name)) continue;
    curves.higher_is_better = at.line->is_better_when_higher(name);
    curves.one_is_best = at.line->is_best_at_one(name);
  }
  const Series held_out = series_of(steps, "test", name);
  Series training = series_of(steps, "pass", std::string(kOfJob) + name);
  if (training.points.size() < 2) {
    Series log_points = series_of(steps, "train", name);
    if (!log_points.points.empty()) training = std::move(log_points);
  }
  const Series& judged = held_out.points.empty() ? training : held_out;
  curves.best = best_of(judged, curves);
  if (!judged.points.empty()) {
    curves.last = BestValue{judged.points.back().second, judged.passes.back()};
  }
  curves.held_out = held_out.points;
  curves.training = std::move(training.points);
  return curves;
}

}  // namespace

std::map<std::uint64_t, PassSamples> pass_samples(const std::vector<MetricsLine>& metrics) {
  MetricsTotals totals;
  for (const MetricsLine& line : metrics) totals.add(line);
  return totals.passes();
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

std::vector<EvaluatorCurves> evaluator_curves(const ProcessRecord* leader) {
  std::vector<EvaluatorCurves> all;
  if (leader == nullptr) return all;
  const auto steps = steps_of(leader->metrics);
  for (const std::string& name : names_of(*leader)) all.push_back(curves_of(steps, name));
  prefer_errors(all);
  return all;
}

std::vector<TestCurve> test_curves(const ProcessRecord* leader) {
  constexpr std::string_view kCurve = "curve:";
  std::map<std::pair<std::string, std::string>, TestCurve> last;  // by kind and name
  for (std::size_t i = 0; leader != nullptr && i < leader->metrics.size(); ++i) {
    const MetricsLine& line = leader->metrics[i];
    if (line.kind != "test") continue;
    for (const auto& [key, numbers] : line.lists) {
      const std::size_t end = key.find(':', kCurve.size());
      if (!key.starts_with(kCurve) || end == std::string::npos) continue;
      TestCurve curve{
          key.substr(kCurve.size(), end - kCurve.size()), key.substr(end + 1), line.pass, {}};
      for (std::size_t at = 0; at + 1 < numbers.size(); at += 2)
        curve.points.emplace_back(numbers[at], numbers[at + 1]);
      const auto place = std::pair(curve.kind, curve.name);
      if (last.contains(place) || last.size() < kTestCurvesMax) last[place] = std::move(curve);
    }
  }
  std::vector<TestCurve> curves;
  for (auto& [place, curve] : last) curves.push_back(std::move(curve));
  return curves;
}

}  // namespace paddle::cli
