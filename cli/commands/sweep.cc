// sweep: trains a workspace with many settings, and ranks the results.
#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>

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

constexpr std::size_t kCheckedMax = 100;  // trials; 10 ms for a small network, more with much data

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
    if (parameter.is_fractional() && message.find("must be an integer") != std::string::npos)
      error.hint = "the key takes whole numbers: integer = [1, 8]";
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

// The trials, each read as a job. Errors name the place in the sweep's file.
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

// Whether the job has the figure, as far as it can be known before it trains. The check is that of
// [train] best, with records held out if the job holds out none: training has the same figures.
Status check_figure(Context& context, TrainOptions train, Sweep& sweep, const Trial& first,
                    const CheckedTraining& of_first) {
  const config::JobConfig& job = of_first.job.config;
  if (sweep.figure.empty() || !job.has_network()) return {};
  const std::string best = "train.best=" + sweep.figure;
  std::vector<std::string> settings = first.settings;
  settings.push_back(best);
  if (!holds_out(job)) settings.emplace_back("data.test_fraction=0.5");
  std::vector<std::string>& overrides = train.plan.source.overrides;
  overrides = merged_overrides(overrides, settings);
  const auto checked = check_training(context, train, &of_first.placement);
  if (checked) return {};
  const std::string& message = checked.error().message;
  const std::string place = "--set " + best + ": ";
  const std::size_t at = message.find(place);
  if (at == std::string::npos) return {};
  std::string text = message.substr(at + place.size());
  constexpr std::string_view kKey = "[train] best: ";
  if (text.starts_with(kKey)) text.erase(0, kKey.size());
  return sweep.at("figure", text, checked.error().hint);
}

// check_training() of the first trials with which each value occurs once, up to kCheckedMax, and of
// the figure. Returns that of the first one. Prints nothing.
Result<CheckedTraining> check_trials(Context& context, const TrainOptions& train, Sweep& sweep,
                                     const std::vector<Trial>& trials) {
  std::set<std::string> known;
  std::optional<CheckedTraining> first;
  std::size_t checks = 0;
  for (const Trial& trial : trials) {
    bool is_new = false;
    for (const std::string& setting : trial.settings)
      is_new = known.insert(setting).second || is_new;
    if (!is_new || ++checks > kCheckedMax) continue;
    if (context.interrupted()) return Error{Errc::kInterrupted, "interrupted", ""};
    TrainOptions one = train;
    one.plan.source.overrides = merged_overrides(train.plan.source.overrides, trial.settings);
    // The GPUs are the same for all, and asking for them takes long.
    const bool is_placed = first && !train.plan.gpus.empty();
    auto checked = check_training(context, one, is_placed ? &first->placement : nullptr);
    if (!checked) {
      Error error = located(sweep, trial.settings, checked.error());
      if (first && error.message == checked.error().message)  // the others do not have this mistake
        error.message = fmt::format("{} ({}): {}", trial.job, trial.text(), error.message);
      return error;
    }
    if (!first) first = *std::move(checked);
  }
  PADDLE_TRY_STATUS(check_figure(context, train, sweep, trials.front(), *first));
  return *std::move(first);
}

// check_trials(), with the notes of it only in a dry run: a start prints them again.
Result<CheckedTraining> check_quietly(Context& context, const TrainOptions& train, Sweep& sweep,
                                      const std::vector<Trial>& trials) {
  std::vector<std::string> notes;
  context.console.divert_notes(&notes);
  auto checked = check_trials(context, train, sweep, trials);
  context.console.divert_notes(nullptr);
  std::set<std::string> shown;
  for (const std::string& note : notes) {
    if (train.dry_run && shown.insert(note).second) context.console.note(note);
  }
  return checked;
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
  plan.settings = checked.settings;
  plan.settings.overrides = train.plan.source.overrides;
  return plan;
}

// Lets every trial keep the snapshot of its best pass, which the result of the sweep names.
void keep_best_pass(TrainOptions& train, const Sweep& sweep, const config::JobConfig& job) {
  const bool is_swept = std::ranges::any_of(sweep.parameters, [](const SweepParameter& parameter) {
    return parameter.key() == "train.best";
  });
  if (!job.has_network() || !holds_out(job) || !job.train.best.empty() || is_swept) return;
  std::vector<std::string>& overrides = train.plan.source.overrides;
  overrides =
      merged_overrides(overrides, {"train.best=" + (sweep.figure.empty() ? "cost" : sweep.figure)});
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

// The command that trains with the settings of a trial, without the values of --env.
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
  if (train.restarts) add("--restarts", fmt::format("{}", *train.restarts));
  if (train.stall_restarts_after)
    add("--stall-restarts-after", fmt::format("{}", *train.stall_restarts_after));
  for (const std::string& one : train.environment) add("--env", one.substr(0, one.find('=')));
  add("--env-file", train.environment_file);
  add("--from", train.from);
  for (const std::string& one : merged_overrides(plan.source.overrides, trial.settings))
    add("--set", one);
  if (!plan.source.workspace.empty()) text += " " + shell_word(plan.source.workspace);
  return text;
}

bool is_failed(const Trial& trial) {
  return trial.state == TrialState::kFailed;
}

// kFailed: names the trials that failed.
Status check_failures(const std::vector<Trial>& trials) {
  std::vector<std::string> failed;
  std::string on_nodes;  // the first one that left something there
  for (const Trial& trial : trials) {
    if (!is_failed(trial)) continue;
    failed.push_back(trial.job);
    if (trial.is_on_nodes && on_nodes.empty()) on_nodes = trial.job;
  }
  if (failed.empty()) return {};
  return Error{
      Errc::kFailed,
      fmt::format("{} of {} trials failed: {}", failed.size(), trials.size(),
                  fmt::join(failed, ", ")),
      on_nodes.empty()
          ? "the same command starts trials again that are not on the nodes"
          : fmt::format("see paddlectl logs --job {0}; to run it again: paddlectl rm {0}, then "
                        "the same sweep",
                        on_nodes)};
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
    auto drawn = ranked;  // a failed trial may have good values from before its end
    if (!is_failed(*ranked.front()))
      std::erase_if(drawn, [](const Trial* trial) { return is_failed(*trial); });
    const std::string chart =
        comparison_chart(compared_trials(drawn, plan.figure), context.console.options().columns);
    if (!chart.empty()) context.console.raw("\n" + chart);
  }
  // A page that cannot be written is the last error, so that it hides nothing.
  Status page = write_page(context, plan, sweep, comparison);
  const Trial& best = *ranked.front();
  const auto value = value_of(best, plan.figure, any_has_held_out(ranked, plan.figure));
  if (!value) {
    Status failed = check_failures(trials);
    if (std::ranges::all_of(trials, is_failed)) return failed;
    return Error{Errc::kFailed,
                 fmt::format("no trial has a value of '{}'{}", plan.figure,
                             failed ? "" : "; " + failed.error().message),
                 fmt::format("name another `figure` in {}; paddlectl compare --tag {} shows what "
                             "the trials have",
                             options.file, sweep.tag())};
  }
  PADDLE_TRY(const FetchStats stats, fetch_results(context, session, best.job, plan.output,
                                                   PassChoice{PassChoice::Kind::kLastAndBest}));
  note_left_snapshots(context, best.job, plan.output, stats);
  if (context.console.json()) return page;
  context.console.result(fmt::format("best: {}, {} {:.5g} in pass {}; its files are in {}",
                                     best.job, plan.figure, value->value, value->pass + 1,
                                     shown_path(context, plan.output + "/" + best.job)));
  const bool has_values = std::ranges::any_of(
      options.train.environment,
      [](const std::string& one) { return one.find('=') != std::string::npos; });
  if (has_values)
    context.console.note("the values of --env are not printed: export them before this command");
  context.console.result(train_command_of(options.train, best));
  return page;
}

Status run_sweep(Context& context, const SweepOptions& given) {
  SweepOptions options = given;
  TrainOptions& train = options.train;
  PADDLE_TRY(Sweep sweep, read_sweep(context.directory, options.file));
  std::vector<std::string> tags = train.tags;
  tags.push_back(sweep.tag());
  PADDLE_TRY(tags, checked_tags(tags));
  PADDLE_TRY_STATUS(check_overrides(sweep, train.plan.source.overrides));
  PADDLE_TRY(std::vector<Trial> trials, make_trials(context, train, sweep));
  PADDLE_TRY(const CheckedTraining checked, check_quietly(context, train, sweep, trials));
  PADDLE_TRY(const Destination to, destination(context, train.results));
  keep_best_pass(train, sweep, checked.job.config);
  SweepPlan plan = plan_of(train, sweep, checked, to);
  if (train.dry_run) {
    context.console.table(sweep_table(sweep, ranked_trials(trials, plan.figure), plan.figure));
    return {};
  }
  const bool has_one_data_set = std::ranges::none_of(
      sweep.parameters,
      [](const SweepParameter& parameter) { return parameter.key().starts_with("data."); });
  if (has_one_data_set) {
    PADDLE_TRY(plan.settings.data, contents_of_data(context, checked.workspace));
  }
  ClusterSession session = ClusterSession::open(context, checked.cluster, checked.chosen);
  PADDLE_TRY_STATUS(all_reached(checked.cluster, session));
  context.console.note(fmt::format("{}: {} by {}; Ctrl-C saves and stops the trials that run",
                                   sweep.name, counted(sweep.trials, "trial"), plan.figure));
  SweepRun run(context, session, sweep, plan, std::move(trials),
               start_trial(context, train, sweep));
  if (Status done = run.run(); !done) {
    Error error = std::move(done).error();
    if (error.hint.empty()) error.hint = "run the same command again to continue";
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
