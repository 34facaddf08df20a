#include "cli/report/comparison.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/text.h"
#include "cli/console/line_chart.h"
#include "cli/console/time_text.h"
#include "cli/report/job_json.h"

namespace paddle::cli {
namespace {

constexpr std::size_t kColumnsMax = 4;         // jobs beside each other; more are below each other
constexpr std::size_t kComparedCurvesMax = 8;  // as many colours has the page
constexpr std::size_t kChartColumns = 80;

using Value = std::optional<BestValue> EvaluatorCurves::*;
constexpr auto kValues = std::to_array<std::pair<std::string_view, Value>>(
    {{"best", &EvaluatorCurves::best}, {"last", &EvaluatorCurves::last}});

std::string state_of(const JobRecord& record) {
  std::string state = "done";
  for (const ProcessRecord& process : record.processes) {
    if (process.failed) return "failed";
    if (process.started_unix_ms > 0 && process.ended_unix_ms == 0) state = "running";
    if (process.is_trainer() && state == "done" && !process.state.empty()) state = process.state;
  }
  return state;
}

std::map<std::string, std::string> settings_of(const JobRecord& record) {
  std::map<std::string, std::string> all = flat_settings(record.configuration, {});
  const auto add = [&](const std::string& key, const std::string& value) {
    if (!value.empty()) all[key] = value;
  };
  const auto trainers =
      static_cast<std::size_t>(std::ranges::count_if(record.processes, &ProcessRecord::is_trainer));
  add("--trainers", fmt::format("{}", trainers));
  add("--pservers", fmt::format("{}", record.processes.size() - trainers));
  if (record.settings) {
    const JobSettings& settings = *record.settings;
    add("--gpus", settings.gpus);
    add("--on", settings.on);
    add("--from", settings.from);
    add("--restarts", fmt::format("{}", settings.restarts));
    if (settings.stall_restarts_after)
      add("--stall-restarts-after", fmt::format("{}", *settings.stall_restarts_after));
    for (const std::string& name : settings.variables) add("--env " + name, "set");
  }
  add("git commit", record.run.git.text());
  if (!record.commands.empty()) add("paddlectl", record.commands.back().version);
  return all;
}

bool is_in(const std::vector<std::string>& names, const std::string& name) {
  return std::ranges::find(names, name) != names.end();
}

std::string setting_of(const ComparedJob& job, const std::string& key) {
  const auto found = job.settings.find(key);
  return found == job.settings.end() ? "" : found->second;
}

bool any_is_held_out(const Comparison& comparison, const std::string& figure) {
  return std::ranges::any_of(comparison.jobs, [&](const ComparedJob& job) {
    const EvaluatorCurves* const of = job.evaluator(figure);
    return of != nullptr && !of->held_out.empty();
  });
}

// The jobs whose curves are drawn, the best of the figure first.
std::vector<const ComparedJob*> best_first(const Comparison& comparison,
                                           const std::string& figure) {
  std::vector<const ComparedJob*> jobs;
  for (const ComparedJob& job : comparison.jobs) {
    const EvaluatorCurves* const of = job.evaluator(figure);
    if (of != nullptr && of->best) jobs.push_back(&job);
  }
  std::ranges::stable_sort(jobs, {}, [&](const ComparedJob* job) {
    const EvaluatorCurves& of = *job->evaluator(figure);
    return rank_of(of, of.best->value);
  });
  if (jobs.size() > kComparedCurvesMax) jobs.resize(kComparedCurvesMax);
  return jobs;
}

// A line of the table: its name and a cell for each job.
struct Line {
  std::string name;
  std::vector<Cell> cells;
};

Cell figure_cell(const ComparedJob& job, const std::string& figure, Value value, bool is_mixed,
                 const std::vector<std::string>& best) {
  const EvaluatorCurves* const of = job.evaluator(figure);
  if (of == nullptr || !(of->*value)) return empty_cell();
  std::string text = fmt::format("{:.5g}", (of->*value)->value);
  if (value == &EvaluatorCurves::best) text += fmt::format(", pass {}", (of->*value)->pass + 1);
  if (is_mixed && of->held_out.empty()) text += " (training)";
  return text_cell(text + (is_in(best, job.job) ? " *" : ""));
}

std::vector<Line> lines_of(const Comparison& comparison) {
  std::vector<Line> lines;
  const auto add = [&](const std::string& name, const auto& cell_of) {
    lines.push_back({name, {}});
    for (const ComparedJob& job : comparison.jobs) lines.back().cells.push_back(cell_of(job));
  };
  const auto add_if_any = [&](const std::string& name, const auto& text_of) {
    if (std::ranges::any_of(comparison.jobs,
                            [&](const auto& job) { return !text_of(job).empty(); }))
      add(name, [&](const ComparedJob& job) {
        return text_of(job).empty() ? empty_cell() : text_cell(text_of(job));
      });
  };
  for (const std::string& key : comparison.different)
    add_if_any(key, [&](const ComparedJob& job) { return setting_of(job, key); });
  add("state", [](const ComparedJob& job) { return text_cell(job.state); });
  for (const std::string& figure : comparison.figures) {
    const bool is_mixed = any_is_held_out(comparison, figure);
    for (const auto& [name, value] : kValues) {
      const auto best = best_jobs(comparison, figure, value);
      add(fmt::format("{} {}", figure, name),
          [&](const ComparedJob& job) { return figure_cell(job, figure, value, is_mixed, best); });
    }
  }
  add("examples/s", [](const ComparedJob& job) {
    return job.examples_per_second > 0 ? number_cell(job.examples_per_second, 0) : empty_cell();
  });
  add("duration", [](const ComparedJob& job) {
    return job.duration_ms > 0 ? text_cell(span_text(job.duration_ms)) : empty_cell();
  });
  add_if_any("tags", [](const ComparedJob& job) {
    return fmt::format("{}", fmt::join(job.run.tags, ", "));
  });
  add_if_any("note", [](const ComparedJob& job) { return job.run.note; });
  return lines;
}

// CSV.

std::string csv_number(double value) {
  return std::isfinite(value) ? fmt::format("{}", value) : "";
}

// A text of a job or a node. A spreadsheet takes what begins with these marks for a formula.
std::string csv_text(const std::string& raw) {
  std::string text = escape_control(raw);
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool is_number = error == std::errc() && end == text.data() + text.size();
  if (!text.empty() && !is_number && std::string_view("=+-@").find(text[0]) != std::string::npos)
    text.insert(0, "'");
  if (text.find_first_of(",\"'") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

std::string csv_line(const std::vector<std::string>& cells) {
  return fmt::format("{}\r\n", fmt::join(cells, ","));
}

Json texts_json(const std::vector<std::string>& texts) {
  return Json::list({texts.begin(), texts.end()});
}

}  // namespace

const EvaluatorCurves* ComparedJob::evaluator(const std::string& name) const {
  const auto found = std::ranges::find(evaluators, name, &EvaluatorCurves::name);
  return found == evaluators.end() ? nullptr : &*found;
}

ComparedJob compared_job(const JobRecord& record) {
  ComparedJob job;
  job.job = record.job;
  job.state = state_of(record);
  job.run = record.run;
  job.settings = settings_of(record);
  const ProcessRecord* const leader = leader_of(record);
  job.evaluators = evaluator_curves(leader);
  for (EvaluatorCurves& one : job.evaluators) {
    one.held_out = thinned(std::move(one.held_out));
    one.training = thinned(std::move(one.training));
  }
  std::erase_if(job.evaluators, [](const EvaluatorCurves& one) { return !one.best; });
  if (leader != nullptr && !leader->metrics.empty()) job.metrics = metrics_path(leader->log);
  for (const TrainerCurve& curve : trainer_curves(record))
    job.examples_per_second += curve.mean_rate;
  std::int64_t ended = 0;
  bool runs = false;
  for (const ProcessRecord& process : record.processes) {
    if (process.started_unix_ms == 0) continue;  // a damaged record
    job.started_unix_ms = job.started_unix_ms == 0
                              ? process.begun_unix_ms
                              : std::min(job.started_unix_ms, process.begun_unix_ms);
    ended = std::max(ended, process.ended_unix_ms);
    runs = runs || process.ended_unix_ms == 0;
  }
  if (!runs) job.duration_ms = std::max<std::int64_t>(0, ended - job.started_unix_ms);
  return job;
}

double rank_of(const EvaluatorCurves& of, double value) {
  if (of.one_is_best) return std::abs(value - 1);
  return of.higher_is_better ? -value : value;
}

Comparison compare(std::vector<ComparedJob> jobs) {
  Comparison comparison;
  std::set<std::string> keys;
  for (const ComparedJob& job : jobs) {
    for (const auto& [key, value] : job.settings) keys.insert(key);
    for (const EvaluatorCurves& one : job.evaluators) {
      if (!is_in(comparison.figures, one.name)) comparison.figures.push_back(one.name);
    }
  }
  for (const std::string& key : keys) {
    const bool is_same = std::ranges::all_of(jobs, [&](const ComparedJob& job) {
      return setting_of(job, key) == setting_of(jobs.front(), key);
    });
    if (!is_same) comparison.different.push_back(key);
  }
  comparison.jobs = std::move(jobs);
  return comparison;
}

std::vector<std::string> best_jobs(const Comparison& comparison, const std::string& figure,
                                   Value value) {
  const bool only_held_out = any_is_held_out(comparison, figure);
  std::vector<std::pair<double, std::string>> ranked;
  for (const ComparedJob& job : comparison.jobs) {
    const EvaluatorCurves* const of = job.evaluator(figure);
    if (of == nullptr || !(of->*value) || (only_held_out && of->held_out.empty())) continue;
    ranked.emplace_back(rank_of(*of, (of->*value)->value), job.job);
  }
  std::vector<std::string> best;
  if (ranked.size() < 2) return best;
  const double least = std::ranges::min(ranked).first;
  for (const auto& [rank, job] : ranked) {
    if (rank == least) best.push_back(job);
  }
  return best;
}

Table comparison_table(const Comparison& comparison) {
  const std::vector<Line> lines = lines_of(comparison);
  Table table;
  if (comparison.jobs.size() <= kColumnsMax) {
    table.columns.push_back({"", "", 0, false, true});
    for (const ComparedJob& job : comparison.jobs)
      table.columns.push_back({job.job, "", 0, false, true});
    for (const Line& line : lines) {
      table.rows.push_back({text_cell(line.name)});
      for (const Cell& cell : line.cells) table.rows.back().push_back(cell);
    }
    return table;
  }
  table.columns.push_back({"job", "", 0, false, true});
  for (const Line& line : lines) table.columns.push_back({line.name, "", 0, false, true});
  for (std::size_t i = 0; i < comparison.jobs.size(); ++i) {
    table.rows.push_back({text_cell(comparison.jobs[i].job)});
    for (const Line& line : lines) table.rows.back().push_back(line.cells[i]);
  }
  return table;
}

std::string comparison_chart(const Comparison& comparison, std::size_t columns) {
  for (const std::string& figure : comparison.figures) {
    const bool is_held_out = any_is_held_out(comparison, figure);
    const auto jobs = best_first(comparison, figure);
    std::vector<TextCurve> curves;
    std::string legend;
    for (const ComparedJob* const job : jobs) {
      const EvaluatorCurves& of = *job->evaluator(figure);
      const Points& points = is_held_out ? of.held_out : of.training;
      if (points.empty()) continue;
      curves.push_back({static_cast<char>('a' + curves.size()), points});
      legend += fmt::format("  {}  {}\n", curves.back().mark, escape_control(job->job));
    }
    const bool has_line =
        std::ranges::any_of(curves, [](const TextCurve& curve) { return curve.points.size() > 1; });
    if (!has_line) continue;
    const std::string some =
        comparison.jobs.size() > kComparedCurvesMax
            ? fmt::format(", the best {} of {}", curves.size(), comparison.jobs.size())
            : "";
    return fmt::format("{}, on {} data, by batches{}\n{}{}", escape_control(figure),
                       is_held_out ? "held-out" : "training", some,
                       line_chart(curves, columns > 0 ? columns : kChartColumns), legend);
  }
  return "";
}

std::string comparison_csv(const Comparison& comparison) {
  std::vector<std::string> head{"job", "state", "tags", "note"};
  for (const std::string& key : comparison.different) head.push_back(csv_text(key));
  for (const std::string& figure : comparison.figures) {
    for (const char* const part : {"best", "best pass", "last"})
      head.push_back(csv_text(fmt::format("{} {}", figure, part)));
  }
  head.insert(head.end(), {"examples/s", "duration in s"});
  std::string text = csv_line(head);
  for (const ComparedJob& job : comparison.jobs) {
    std::vector<std::string> cells{csv_text(job.job), csv_text(job.state),
                                   csv_text(fmt::format("{}", fmt::join(job.run.tags, " "))),
                                   csv_text(job.run.note)};
    for (const std::string& key : comparison.different)
      cells.push_back(csv_text(setting_of(job, key)));
    for (const std::string& figure : comparison.figures) {
      const EvaluatorCurves* const of = job.evaluator(figure);
      const bool has = of != nullptr && of->best && of->last;
      cells.push_back(has ? csv_number(of->best->value) : "");
      cells.push_back(has ? fmt::format("{}", of->best->pass + 1) : "");
      cells.push_back(has ? csv_number(of->last->value) : "");
    }
    cells.push_back(job.examples_per_second > 0 ? csv_number(job.examples_per_second) : "");
    cells.push_back(job.duration_ms > 0 ? csv_number(static_cast<double>(job.duration_ms) / 1000)
                                        : "");
    text += csv_line(cells);
  }
  return text;
}

Json comparison_json(const Comparison& comparison, const std::string& output) {
  std::vector<Json> jobs;
  for (const ComparedJob& job : comparison.jobs) {
    Json::Fields settings;
    for (const auto& [key, value] : job.settings) settings.emplace_back(key, value);
    Json::Fields one{{"job", job.job}, {"state", job.state}};
    add_json(job.run, one);
    one.insert(one.end(), {{"settings", Json::object(settings)},
                           {"evaluators", evaluators_json(job.evaluators)},
                           {"examples_per_second", Json::number(job.examples_per_second)},
                           {"started_unix_ms", job.started_unix_ms},
                           {"duration_ms", job.duration_ms > 0 ? Json(job.duration_ms) : Json()},
                           {"metrics", job.metrics}});
    if (!output.empty()) one.emplace_back("folder", output + "/" + job.job);
    jobs.push_back(Json::object(one));
  }
  Json::Fields best;
  for (const std::string& figure : comparison.figures) {
    Json::Fields of;
    for (const auto& [name, value] : kValues)
      of.emplace_back(std::string(name), texts_json(best_jobs(comparison, figure, value)));
    best.emplace_back(figure, Json::object(of));
  }
  return Json::object({{"jobs", Json::list(jobs)},
                       {"different", texts_json(comparison.different)},
                       {"figures", texts_json(comparison.figures)},
                       {"best", Json::object(best)}});
}

}  // namespace paddle::cli
