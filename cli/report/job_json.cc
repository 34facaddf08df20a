#include "cli/report/job_json.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "base/safe_path.h"
#include "cli/console/json.h"
#include "cli/report/curves.h"

namespace paddle::cli {
namespace {

constexpr std::size_t kCurvesMax = 7;    // the page has eight colours; one is for held-out data
constexpr std::size_t kEventsMax = 400;  // the last ones, faults first
constexpr std::size_t kPassesMax = 50;   // the last ones, besides the best
constexpr std::size_t kEventBytesMax = 600;
constexpr std::size_t kLagBucketsMax = 64;

Json points_json(const Points& points) {
  std::vector<Json> list;
  for (const auto& [x, y] : thinned(points)) {
    list.push_back(Json::list({Json::number(x), Json::number(y)}));
  }
  return Json::list(list);
}

Json curves_json(const std::vector<TrainerCurve>& curves) {
  std::vector<Json> list;
  for (const TrainerCurve* curve : spread_by_rate(curves, kCurvesMax)) {
    list.push_back(Json::object({{"role", curve->process->role},
                                 {"cost", points_json(curve->cost)},
                                 {"rate", points_json(curve->rate)}}));
  }
  return Json::list(list);
}

Json best_json(const std::optional<BestValue>& best) {
  if (!best) return {};
  return Json::object({{"value", Json::number(best->value)}, {"pass", best->pass}});
}

Json test_curves_json(const std::vector<TestCurve>& curves) {
  std::vector<Json> list;
  for (const TestCurve& one : curves) {
    list.push_back(Json::object({{"kind", one.kind},
                                 {"name", one.name},
                                 {"pass", one.pass},
                                 {"points", points_json(one.points)}}));
  }
  return Json::list(list);
}

// The leader's progress, from its newest line that has it; null if none has.
Json progress_json(const ProcessRecord* leader) {
  if (leader == nullptr) return {};
  for (auto line = leader->metrics.rbegin(); line != leader->metrics.rend(); ++line) {
    const auto passes = line->number("passes");
    if (!passes) continue;
    return Json::object({{"pass", line->pass},
                         {"passes", Json::number(*passes)},
                         {"pass_done", Json::number(line->number("pass_done").value_or(0))}});
  }
  return {};
}

Json commands_json(const std::vector<CommandRecord>& commands) {
  std::vector<Json> list;
  for (const CommandRecord& one : commands) {
    list.push_back(
        Json::object({{"unix_ms", one.unix_ms}, {"text", one.text}, {"version", one.version}}));
  }
  return Json::list(list);
}

Json machines_json(const std::vector<MachineRecord>& machines) {
  std::vector<Json> list;
  for (const MachineRecord& one : machines) {
    list.push_back(Json::object({{"node", one.node},
                                 {"processor", one.processor},
                                 {"cores", Json::number(one.cores)},
                                 {"memory_bytes", Json::number(one.memory_bytes)},
                                 {"os", one.os},
                                 {"kernel", one.kernel},
                                 {"gpus", one.gpus},
                                 {"agent_version", one.agent_version},
                                 {"price_per_hour", Json::number(one.price_per_hour)},
                                 {"currency", one.currency}}));
  }
  return Json::list(list);
}

// One line of the leader: a test, or its totals over all trainers at the end of a pass.
Json pass_json(const MetricsLine& line, const PassSamples& of_all) {
  constexpr std::string_view kTotal = "total_";
  const bool test = line.kind == "test";
  const bool is_part = !test && of_all.is_split;  // its values are only those of the last run
  constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
  double cost = kUnknown;
  if (test) cost = line.cost.value_or(kUnknown);
  if (!test && !is_part) cost = line.number("total_cost").value_or(kUnknown);
  std::vector<Json> evaluators;
  for (const auto& [name, value] : test ? line.evaluators() : line.numbers) {
    if (is_part) break;
    if (!test && (!name.starts_with(kTotal) || name == "total_cost" || name == "total_samples"))
      continue;
    const std::string shown = test ? name : name.substr(kTotal.size());
    evaluators.push_back(Json::object({{"name", shown}, {"value", Json::number(value)}}));
  }
  return Json::object(
      {{"pass", line.pass},
       {"data", test ? "held-out" : "training"},
       {"examples", Json::number(test      ? static_cast<double>(line.samples)
                                 : is_part ? of_all.samples
                                           : line.number("total_samples").value_or(0))},
       {"cost", Json::number(cost)},
       {"evaluators", Json::list(evaluators)}});
}

// Adds the last line of each pass for tests and for training: the last passes, and the best ones.
void add_passes(const JobRecord& record, const ProcessRecord* leader,
                const std::vector<EvaluatorCurves>& evaluators, Json::Fields& job) {
  std::map<std::uint64_t, std::map<bool, const MetricsLine*>> passes;  // by pass and "is a test"
  for (std::size_t i = 0; leader != nullptr && i < leader->metrics.size(); ++i) {
    const MetricsLine& line = leader->metrics[i];
    const bool test = line.kind == "test";
    if (test || line.kind == "pass") passes[line.pass][test] = &line;
  }
  const std::size_t total = passes.size();
  std::set<std::uint64_t> kept;
  for (auto last = passes.rbegin(); last != passes.rend() && kept.size() < kPassesMax; ++last)
    kept.insert(last->first);
  for (const EvaluatorCurves& one : evaluators) {
    if (one.best) kept.insert(one.best->pass);
  }
  std::map<std::uint64_t, PassSamples> trained;  // by all trainers
  for (const ProcessRecord& process : record.processes) {
    if (!process.is_trainer()) continue;
    const auto totals = totals_of(process);
    for (const std::uint64_t pass : kept) {
      const auto of_one = totals->passes().find(pass);
      if (of_one == totals->passes().end()) continue;
      trained[pass].samples += of_one->second.samples;
      trained[pass].is_split = trained[pass].is_split || of_one->second.is_split;
    }
  }
  std::vector<Json> list;
  for (const std::uint64_t pass : kept) {
    for (const auto& [test, line] : passes[pass]) list.push_back(pass_json(*line, trained[pass]));
  }
  job.emplace_back("passes_total", total);
  job.emplace_back("passes", Json::list(list));
}

// Adds the newest values of each port that did something, and the sums of the lags of all pushes.
void add_ports(const JobRecord& record, Json::Fields& job) {
  std::vector<Json> ports;
  std::vector<double> lags;
  for (const ProcessRecord& process : record.processes) {
    std::map<double, const MetricsLine*> newest;
    for (const MetricsLine& line : process.metrics) {
      if (line.kind == "pserver") newest[line.number("port").value_or(0)] = &line;
    }
    for (const auto& [port, line] : newest) {
      const auto is_idle = [&](const char* key) { return line->number(key).value_or(0) <= 0; };
      if (is_idle("rows") && is_idle("pushes") && is_idle("batches")) continue;
      Json::Fields one = {{"node", process.node},
                          {"role", process.role},
                          {"port", Json::number(port)},
                          {"sparse", line->number("sparse").value_or(0) > 0}};
      for (const char* const key : {"rows", "bytes", "pushes", "batches"}) {
        one.emplace_back(key, Json::number(line->number(key).value_or(0)));
      }
      ports.push_back(Json::object(one));
      for (const auto& [key, values] : line->lists) {
        if (key != "lags") continue;
        lags.resize(std::min(kLagBucketsMax, std::max(lags.size(), values.size())));
        for (std::size_t i = 0; i < values.size() && i < lags.size(); ++i) lags[i] += values[i];
      }
    }
  }
  job.emplace_back("ports", Json::list(ports));
  std::vector<Json> buckets;
  for (const double pushes : lags) buckets.push_back(Json::number(pushes));
  job.emplace_back("lags", Json::list(buckets));
}

// Adds the last events, and the number of all events. Tests and snapshots of many passes do not
// displace a fault.
void add_events(const std::vector<JobEvent>& events, Json::Fields& job) {
  const auto faults = static_cast<std::size_t>(std::ranges::count_if(events, &JobEvent::is_bad));
  std::size_t room_of_faults = std::min(faults, kEventsMax);
  std::size_t room_of_others = kEventsMax - room_of_faults;
  std::vector<Json> list;
  for (auto event = events.rbegin(); event != events.rend(); ++event) {
    std::size_t& room = event->is_bad ? room_of_faults : room_of_others;
    if (room == 0) continue;
    --room;
    list.push_back(Json::object({{"unix_ms", event->unix_ms},
                                 {"role", event->role},
                                 {"text", event->text.substr(0, kEventBytesMax)},
                                 {"is_bad", event->is_bad}}));
  }
  std::ranges::reverse(list);
  job.emplace_back("events_total", events.size());
  job.emplace_back("events", Json::list(list));
}

}  // namespace

Json evaluators_json(const std::vector<EvaluatorCurves>& evaluators) {
  std::vector<Json> list;
  for (const EvaluatorCurves& one : evaluators) {
    list.push_back(Json::object({{"name", one.name},
                                 {"higher_is_better", one.higher_is_better},
                                 {"one_is_best", one.one_is_best},
                                 {"held_out", points_json(one.held_out)},
                                 {"training", points_json(one.training)},
                                 {"best", best_json(one.best)},
                                 {"last", best_json(one.last)}}));
  }
  return Json::list(list);
}

std::string script_text(const Json& json) {
  std::string safe;
  for (const char c : json.text()) {
    safe += c == '<' ? std::string("\\u003c") : std::string(1, c);
  }
  return safe;
}

JobFigures figures_of(const JobRecord& record) {
  JobFigures figures;
  figures.curves = trainer_curves(record);
  figures.slow = slow_trainers(figures.curves);
  figures.evaluators = evaluator_curves(leader_of(record));
  return figures;
}

Json processes_json(const JobRecord& record, const JobFigures& figures) {
  const auto& curves = figures.curves;
  const auto& slow = figures.slow;
  std::vector<Json> list;
  for (const ProcessRecord& process : record.processes) {
    Json::Fields one = {{"node", process.node},
                        {"role", process.role},
                        {"state", process.state},
                        {"failed", process.failed},
                        {"begun_ms", process.begun_unix_ms},
                        {"started_ms", process.started_unix_ms},
                        {"ended_ms", process.ended_unix_ms},
                        {"memory_bytes", Json::number(process.resident_bytes)},
                        {"cpu_ms", Json::number(process.cpu_ms)},
                        {"starts", process.incarnation},
                        {"log", SafePath::parse(process.log) ? process.log : ""},
                        {"arguments", process.arguments}};
    const auto curve = std::ranges::find(curves, &process, &TrainerCurve::process);
    if (curve != curves.end()) {
      one.emplace_back("examples", Json::number(curve->samples));
      one.emplace_back("rate", Json::number(curve->mean_rate));
      one.emplace_back("busy_rate", Json::number(curve->mean_busy));
      one.emplace_back("slow",
                       std::ranges::find(slow, process.role, &SlowTrainer::role) != slow.end());
    }
    if (process.now) one.emplace_back("now", *process.now);
    list.push_back(Json::object(one));
  }
  return Json::list(list);
}

Json slow_json(const JobFigures& figures) {
  std::vector<Json> sentences;
  for (const SlowTrainer& one : figures.slow) sentences.emplace_back(describe(one));
  return Json::list(sentences);
}

Json::Fields job_fields(const JobRecord& record, const JobFigures& figures) {
  const ProcessRecord* const leader = leader_of(record);
  Json::Fields job = {{"job", record.job},
                      {"configuration", record.configuration},
                      {"processes", processes_json(record, figures)},
                      {"slow", slow_json(figures)},
                      {"curves", curves_json(figures.curves)},
                      {"evaluators", evaluators_json(figures.evaluators)},
                      {"test_curves", test_curves_json(test_curves(leader))},
                      {"progress", progress_json(leader)},
                      {"commands", commands_json(record.commands)},
                      {"machines", machines_json(record.machines)}};
  job.emplace_back("tags", Json::list({record.run.tags.begin(), record.run.tags.end()}));
  job.emplace_back("note", record.run.note);
  job.emplace_back("git", record.run.git.text());
  add_passes(record, leader, figures.evaluators, job);
  add_ports(record, job);
  add_events(record.events, job);
  return job;
}

std::string job_json(const JobRecord& record) {
  return script_text(Json::object(job_fields(record, figures_of(record))));
}

}  // namespace paddle::cli
