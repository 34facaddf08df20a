#include "cli/sweep/outcome.h"

#include <algorithm>
#include <limits>
#include <tuple>

#include <fmt/format.h>

#include "cli/console/time_text.h"

namespace paddle::cli {
namespace {

constexpr double kNoRank = std::numeric_limits<double>::infinity();

double rank_of_trial(const Trial& trial, const std::string& figure, bool only_held_out) {
  const auto value = value_of(trial, figure, only_held_out);
  return value ? rank_of(*trial.result->evaluator(figure), value->value) : kNoRank;
}

// "0.1" for "optimizer.learning_rate=0.1".
std::string value_in(const std::string& setting) {
  return setting.substr(setting.find('=') + 1);
}

}  // namespace

std::optional<BestValue> value_of(const Trial& trial, const std::string& figure,
                                  bool only_held_out) {
  if (trial.state == TrialState::kFailed || !trial.result) return std::nullopt;
  const EvaluatorCurves* const of = trial.result->evaluator(figure);
  if (of == nullptr || (only_held_out && of->held_out.empty())) return std::nullopt;
  return of->best;
}

bool any_has_held_out(const std::vector<const Trial*>& trials, const std::string& figure) {
  return std::ranges::any_of(trials, [&](const Trial* trial) {
    const EvaluatorCurves* const of = trial->result ? trial->result->evaluator(figure) : nullptr;
    return of != nullptr && !of->held_out.empty();
  });
}

std::vector<const Trial*> ranked_trials(const std::vector<Trial>& trials,
                                        const std::string& figure) {
  std::vector<const Trial*> ranked;
  for (const Trial& trial : trials) ranked.push_back(&trial);
  const bool only_held_out = any_has_held_out(ranked, figure);
  std::ranges::stable_sort(ranked, {}, [&](const Trial* trial) {
    return std::tuple(trial->state == TrialState::kFailed,
                      rank_of_trial(*trial, figure, only_held_out));
  });
  return ranked;
}

Table sweep_table(const Sweep& sweep, const std::vector<const Trial*>& trials,
                  const std::string& figure) {
  Table table;
  table.columns.push_back({"trial", "job", 0, false, true});
  for (const SweepParameter& parameter : sweep.parameters)
    table.columns.push_back({parameter.key(), parameter.key(), 0, true, true});
  const bool has_begun = std::ranges::any_of(
      trials, [](const Trial* trial) { return trial->state != TrialState::kWaiting; });
  if (has_begun) {
    table.columns.push_back({"state", "state", 0, false, true});
    table.columns.push_back({figure, "value", 0, true});
    table.columns.push_back({"pass", "pass", 1, true});
    table.columns.push_back({"duration", "", 2, true});
  }
  const bool only_held_out = any_has_held_out(trials, figure);
  for (const Trial* const trial : trials) {
    std::vector<Cell>& row = table.rows.emplace_back();
    row.push_back(text_cell(trial->job));
    for (const std::string& setting : trial->settings) row.push_back(text_cell(value_in(setting)));
    if (!has_begun) continue;
    row.push_back(text_cell(std::string(name_of(trial->state))));
    row.back().fault = trial->state == TrialState::kFailed;
    const auto value = value_of(*trial, figure, only_held_out);
    row.push_back(value ? text_cell(fmt::format("{:.5g}", value->value)) : empty_cell());
    row.push_back(value ? number_cell(value->pass + 1) : empty_cell());
    const std::int64_t took = trial->result ? trial->result->duration_ms : 0;
    row.push_back(took > 0 ? text_cell(span_text(took)) : empty_cell());
  }
  return table;
}

Json sweep_json(const Sweep& sweep, const std::vector<const Trial*>& trials,
                const std::string& figure) {
  const bool only_held_out = any_has_held_out(trials, figure);
  std::vector<Json> rows;
  Json best;
  for (const Trial* const trial : trials) {
    const auto value = value_of(*trial, figure, only_held_out);
    if (rows.empty() && value) best = Json(trial->job);
    rows.push_back(
        Json::object({{"job", trial->job},
                      {"state", name_of(trial->state)},
                      {"settings", Json::list({trial->settings.begin(), trial->settings.end()})},
                      {"value", value ? Json::number(value->value) : Json()},
                      {"pass", value ? Json(value->pass) : Json()},
                      {"cause", trial->why.empty() ? Json() : Json(trial->why)}}));
  }
  return Json::object(
      {{"sweep", sweep.name}, {"figure", figure}, {"trials", Json::list(rows)}, {"best", best}});
}

Comparison compared_trials(const std::vector<const Trial*>& trials, const std::string& figure) {
  std::vector<ComparedJob> jobs;
  for (const Trial* const trial : trials) {
    if (trial->result) jobs.push_back(*trial->result);
  }
  Comparison comparison = compare(std::move(jobs));
  const auto main = std::ranges::find(comparison.figures, figure);
  if (main != comparison.figures.end())
    std::rotate(comparison.figures.begin(), main, std::next(main));
  return comparison;
}

}  // namespace paddle::cli
