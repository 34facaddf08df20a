// sweep: trains a workspace with many settings, and ranks the results.
#include <algorithm>
#include <filesystem>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/fd.h"
#include "cli/commands/following.h"
#include "cli/commands/training.h"
#include "cli/job/settings.h"
#include "cli/report/comparison.h"
#include "cli/report/report.h"
#include "cli/sweep/outcome.h"
#include "cli/sweep/sweep_file.h"
#include "cli/sweep/sweep_run.h"

namespace paddle::cli {
namespace {

struct SweepOptions {
  std::string file;
  TrainOptions train;
};

OptionList sweep_options(SweepOptions& options) {
  OptionList list{{.name = "sweep",
                   .help = "file with the settings to try: docs/sweep.md",
                   .target = &options.file,
                   .value_name = "FILE",
                   .required = true}};
  constexpr auto kOfOneJob = std::to_array<std::string_view>(
      {"--name,--job", "--dry-run", "--resume", "--prepare", "--note", "--detach", "--pass"});
  for (Option& option : train_options(options.train)) {
    if (std::ranges::find(kOfOneJob, option.name) != kOfOneJob.end()) continue;
    option.excludes.clear();  // options of one job
    list.push_back(std::move(option));
  }
  list.push_back({"--dry-run", "list the trials; starts nothing", &options.train.dry_run});
  return list;
}

// The error of a job with a parameter's setting, at the parameter in the sweep's file.
Error located(Sweep& sweep, const std::vector<std::string>& settings, Error error) {
  for (std::size_t i = 0; i < settings.size(); ++i) {
    const std::string place = "--set " + settings[i] + ": ";
    if (!error.message.starts_with(place)) continue;
    const std::string message = error.message.substr(place.size());
    SweepParameter& parameter = sweep.parameters[i];
    return message.find("unknown key") != std::string::npos
               ? parameter.at_key(message, error.hint)
               : parameter.at_values(fmt::format("{}: {}", settings[i], message), error.hint);
  }
  return error;
}

std::string key_of_setting(const std::string& setting) {
  std::string key = setting.substr(0, setting.find('='));
  std::erase(key, ' ');
  return key;
}

Status check_overrides(Sweep& sweep, const std::vector<std::string>& overrides) {
  for (SweepParameter& parameter : sweep.parameters) {
    if (std::ranges::find(overrides, parameter.key(), key_of_setting) != overrides.end())
      return parameter.at_key(fmt::format("--set {} gives this key another value", parameter.key()),
                              "leave that option out");
  }
  return {};
}

bool holds_out(const config::JobConfig& job) {
  return !job.data.test.empty() || job.data.test_fraction > 0;
}

// The trials, each checked as a job. Errors name the place in the sweep's file.
Result<std::vector<Trial>> make_trials(const Context& context, const TrainOptions& train,
                                       Sweep& sweep) {
  std::vector<Trial> trials;
  for (std::size_t i = 0; i < sweep.trials; ++i) {
    Trial& trial = trials.emplace_back();
    trial.number = i;
    trial.job = sweep.job_of(i);
    trial.settings = sweep.settings_of(i);
    JobSource source = train.plan.source;
    source.overrides = merged_overrides(source.overrides, trial.settings);
    auto job = resolve_job(context, source);
    if (!job) return located(sweep, trial.settings, std::move(job).error());
    if (job->config.command.empty()) trial.passes = job->config.train.passes;
  }
  return trials;
}

// check_training() of the first trial, with the figure of the sweep as the one of [train] best, so
// that it is checked too.
Result<CheckedTraining> check_first(Context& context, TrainOptions train, Sweep& sweep,
                                    const Trial& first) {
  std::vector<std::string>& overrides = train.plan.source.overrides;
  overrides = merged_overrides(overrides, first.settings);
  PADDLE_TRY(const config::ResolvedJob job, resolve_job(context, train.plan.source));
  const std::string best = "train.best=" + sweep.figure;
  const bool is_checked =
      !sweep.figure.empty() && job.config.has_network() && holds_out(job.config);
  TrainOptions with_figure = train;
  if (is_checked) with_figure.plan.source.overrides = merged_overrides(overrides, {best});
  auto checked = check_training(context, with_figure);
  if (checked) {
    checked->job = job;
    return checked;
  }
  Error error = std::move(checked).error();
  const std::size_t at = error.message.find("--set " + best + ": ");
  if (!is_checked || at == std::string::npos) return located(sweep, first.settings, error);
  return sweep.at("figure", error.message.substr(at + best.size() + 8), error.hint);
}

SweepPlan plan_of(const TrainOptions& train, const Sweep& sweep, const CheckedTraining& checked,
                  const Destination& to) {
  const config::JobConfig& job = checked.job.config;
  SweepPlan plan;
  plan.figure = !sweep.figure.empty() ? sweep.figure : job.train.best;
  if (plan.figure.empty()) plan.figure = "cost";
  plan.source = !job.command.empty() ? PassValues::Source::kOwnTests
                : holds_out(job)     ? PassValues::Source::kTests
                                     : PassValues::Source::kPasses;
  plan.output = to.output;
  plan.written = checked.job.written;
  plan.overrides = train.plan.source.overrides;
  return plan;
}

StartTrial start_trial(Context& context, const TrainOptions& train, const Sweep& sweep) {
  return [&context, &train, tag = sweep.tag()](const Trial& trial) -> Status {
    TrainOptions options = train;
    options.job = trial.job;
    options.tags.push_back(tag);
    if (check_note(trial.text())) options.note = trial.text();
    options.plan.source.overrides = merged_overrides(train.plan.source.overrides, trial.settings);
    options.resume = options.may_begin_anew = trial.is_resumed;
    const auto started = start_training(context, options);
    return started ? Status() : started.error();
  };
}

// The command that trains with the settings of a trial.
std::string train_command_of(const TrainOptions& train, const Trial& trial) {
  const PlanOptions& plan = train.plan;
  std::string text = "paddlectl train";
  const auto add = [&](std::string_view option, const std::string& value) {
    if (!value.empty()) text += fmt::format(" {} {}", option, shell_word(value));
  };
  add("--cluster", plan.target.cluster);
  add("--on", plan.target.on);
  if (plan.trainers > 0) add("--trainers", fmt::format("{}", plan.trainers));
  if (plan.pservers) add("--pservers", fmt::format("{}", *plan.pservers));
  add("--gpus", plan.gpus);
  for (const std::string& one : merged_overrides(plan.source.overrides, trial.settings))
    add("--set", one);
  if (!plan.source.workspace.empty()) text += " " + shell_word(plan.source.workspace);
  return text;
}

// Writes <output>/<sweep>.html, the page of `compare`.
Status write_page(Context& context, const SweepPlan& plan, const Sweep& sweep,
                  const Comparison& comparison) {
  const std::string path = fmt::format("{}/{}.html", plan.output, sweep.name);
  PADDLE_TRY(const std::string page, comparison_page(comparison, context.share));
  PADDLE_TRY_STATUS(replace_file(path, as_bytes(page), 0644));
  context.console.note("page: " + shown_path(context, path));
  return {};
}

// Prints the table, the curves and the page, and fetches the snapshots of the best trial.
Status show_outcome(Context& context, ClusterSession& session, const SweepOptions& options,
                    const Sweep& sweep, const SweepPlan& plan, const std::vector<Trial>& trials) {
  const auto ranked = ranked_trials(trials, plan.figure);
  const Comparison comparison = compared_trials(ranked, plan.figure);
  if (context.console.json()) {
    context.console.json_line(sweep_json(sweep, ranked, plan.figure));
  } else {
    context.console.table(sweep_table(sweep, ranked, plan.figure));
    const std::string chart = comparison_chart(comparison, context.console.options().columns);
    if (!chart.empty()) context.console.raw("\n" + chart);
  }
  PADDLE_TRY_STATUS(write_page(context, plan, sweep, comparison));
  const Trial& best = *ranked.front();
  const auto value = value_of(best, plan.figure, any_has_held_out(ranked, plan.figure));
  if (!value) {
    return Error{Errc::kFailed, fmt::format("no trial has a value of '{}'", plan.figure),
                 fmt::format("name another `figure` in {}; paddlectl compare --tag {} shows what "
                             "the trials have",
                             options.file, sweep.tag())};
  }
  PADDLE_TRY(const FetchStats stats, fetch_results(context, session, best.job, plan.output,
                                                   PassChoice{PassChoice::Kind::kLastAndBest}));
  note_left_snapshots(context, best.job, plan.output, stats);
  if (context.console.json()) return {};
  context.console.result(fmt::format("best: {}, {} {:.5g} in pass {}; its files are in {}",
                                     best.job, plan.figure, value->value, value->pass + 1,
                                     shown_path(context, plan.output + "/" + best.job)));
  context.console.result(train_command_of(options.train, best));
  return {};
}

// kFailed: names the trials that failed.
Status check_failures(const std::vector<Trial>& trials) {
  std::vector<std::string> failed;
  for (const Trial& trial : trials) {
    if (trial.state == TrialState::kFailed) failed.push_back(trial.job);
  }
  if (failed.empty()) return {};
  return Error{Errc::kFailed,
               fmt::format("{} of {} trials failed: {}", failed.size(), trials.size(),
                           fmt::join(failed, ", ")),
               fmt::format("see paddlectl logs --job {0}; to run it again: paddlectl rm {0}, then "
                           "the same sweep",
                           failed.front())};
}

Status run_sweep(Context& context, const SweepOptions& options) {
  const TrainOptions& train = options.train;
  PADDLE_TRY(Sweep sweep, read_sweep(context.directory, options.file));
  std::vector<std::string> tags = train.tags;
  tags.push_back(sweep.tag());
  PADDLE_TRY(tags, checked_tags(tags));
  PADDLE_TRY_STATUS(check_overrides(sweep, train.plan.source.overrides));
  PADDLE_TRY(std::vector<Trial> trials, make_trials(context, train, sweep));
  PADDLE_TRY(const CheckedTraining checked, check_first(context, train, sweep, trials.front()));
  PADDLE_TRY(const Destination to, destination(context, train.results));
  const SweepPlan plan = plan_of(train, sweep, checked, to);
  if (train.dry_run) {
    context.console.table(sweep_table(sweep, ranked_trials(trials, plan.figure), plan.figure));
    return {};
  }
  ClusterSession session = ClusterSession::open(context, checked.cluster, checked.chosen);
  PADDLE_TRY_STATUS(all_reached(checked.cluster, session));
  context.console.note(fmt::format("{}: {} by {}; Ctrl-C saves and stops the trials that run",
                                   sweep.name, counted(sweep.trials, "trial"), plan.figure));
  SweepRun run(context, session, sweep, plan, std::move(trials),
               start_trial(context, train, sweep));
  if (Status done = run.run(); !done) {
    Error error = std::move(done).error();
    if (error.hint.empty()) error.hint = "the same command goes on";
    return error;
  }
  PADDLE_TRY_STATUS(show_outcome(context, session, options, sweep, plan, run.trials()));
  return check_failures(run.trials());
}

}  // namespace

Command sweep_command() {
  return {"sweep", "train with many settings, some jobs at a time, and rank the results",
          "  paddlectl sweep sweep.toml templates/digits\n"
          "  paddlectl sweep sweep.toml --dry-run templates/digits\n"
          "  paddlectl jobs --tag sweep=digits",
          [] { return invocation(sweep_options, run_sweep); }};
}

}  // namespace paddle::cli
