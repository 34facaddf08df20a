#include "cli/commands/following.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/commands/shared_options.h"
#include "cli/job/end_of_job.h"
#include "cli/job/folders.h"
#include "cli/job/job_claim.h"
#include "cli/job/passes.h"
#include "cli/job/result_files.h"
#include "cli/job/results.h"
#include "cli/report/record.h"
#include "cli/report/report.h"
#include "cli/watch/feed.h"
#include "cli/watch/first_failure.h"
#include "cli/watch/missing_processes.h"
#include "cli/watch/process_state.h"

namespace paddle::cli {
namespace {

constexpr std::size_t kPastTestsShown = 5;

// The job's last cost and evaluators, on held-out data or else on the training data.
Json::Fields final_numbers(const JobSummary& summary) {
  const auto& test = summary.last_test;
  const auto& pass = summary.last_pass;
  const MetricsLine* const last = test ? &*test : pass ? &*pass : nullptr;
  if (last == nullptr) return {};
  Json::Fields evaluators;
  for (const auto& [name, value] : last->evaluators())
    evaluators.emplace_back(name, Json::number(value));
  return {{"pass", last->pass},
          {"passes", summary.passes > 0 ? Json(summary.passes) : Json()},
          {"data", test ? "held-out" : "training"},
          {"cost", last->cost ? Json::number(*last->cost) : Json()},
          {"evaluators", Json::object(evaluators)},
          {"diverged", summary.diverged_to.has_value()}};
}

// fetch_results(), but if the nodes lack the chosen snapshot it fetches the last one, because the
// job itself did not fail.
Result<FetchStats> bring_home(Context& context, ClusterSession& session, const std::string& job,
                              const Destination& to) {
  auto fetched = fetch_results(context, session, job, to.output, to.passes);
  if (fetched || fetched.error().code != Errc::kUsage) return fetched;
  context.console.note(fmt::format("warning: {}; {}; fetching the last", fetched.error().message,
                                   fetched.error().hint));
  return fetch_results(context, session, job, to.output, PassChoice{});
}

// Stops the pservers of a job whose trainers have ended, fetches and reports. Prints the folder of
// results and the job's state: "done", or "stopped" if the job can be resumed.
Status finish_job(Context& context, ClusterSession& session, const std::string& job,
                  const Destination& to, const JobSummary& summary,
                  const std::string& state = "done") {
  const std::string& output = to.output;
  PADDLE_TRY_STATUS(stop_job(session, job));
  PADDLE_TRY(const FetchStats stats, bring_home(context, session, job, to));
  note_left_snapshots(context, job, output, stats);
  add_report(context, session, job, output);
  const std::string folder = shown_path(context, (std::filesystem::path(output) / job).string());
  Json::Fields result = {
      {"job", job}, {"state", state}, {"files", stats.files}, {"output", folder}};
  for (const auto& number : final_numbers(summary)) result.push_back(number);
  if (summary.diverged_to) {
    context.console.note(fmt::format("warning: training diverged: the cost went from {} to {}",
                                     cost_text(summary.first_cost.value_or(0)),
                                     cost_text(*summary.diverged_to)));
  }
  context.console.result(Json::object(result),
                         fmt::format("{}: {} files in {}", state, stats.files, folder));
  return {};
}

bool has_checkpoint_here(const std::string& folder) {
  std::error_code error;
  std::filesystem::recursive_directory_iterator at(folder, error);
  for (; !error && at != std::filesystem::recursive_directory_iterator(); at.increment(error)) {
    if (!checkpoint_of(at->path().lexically_relative(folder).string()).empty()) return true;
  }
  return false;
}

// Whether there is a checkpoint on the nodes that answer, or on this machine.
bool has_checkpoint(ClusterSession& session, const std::string& job, const std::string& output) {
  ResultFiles found;
  (void)list_results(session, job, session.processes(job), found);
  const bool is_on_node = std::ranges::any_of(found.of_member, [](const auto& files) {
    return std::ranges::any_of(
        files, [](const remote::FileEntry& file) { return !checkpoint_of(file.path).empty(); });
  });
  return is_on_node || has_checkpoint_here((std::filesystem::path(output) / job).string());
}

// The command that resumes the job: as typed here or kept with its results. Where neither is known,
// `train --resume` takes the settings from the nodes.
ResumeCommand way_to_resume(const Context& context, const std::string& job,
                            const std::string& output) {
  ResumeCommand command = resume_command(context.arguments, context.command_at, job);
  if (!command.text.empty()) return command;
  const auto commands = read_commands((std::filesystem::path(output) / job).string());
  if (!commands.empty() && !commands.back().resume.text.empty()) return commands.back().resume;
  return resume_command_of(job);
}

// Fetches the results of a job that another terminal ended at once, unless that one also removed
// them. Returns `error`, with its code and hint set by whether the job can be resumed.
Error finish_ended_job(Context& context, ClusterSession& session, const std::string& job,
                       const Destination& to, const JobSummary& summary, Error error) {
  const bool is_removed = session.processes(job).empty();
  if (is_removed || !finish_job(context, session, job, to, summary, "stopped")) return error;
  if (has_checkpoint(session, job, to.output)) error.code = Errc::kResumable;
  error.hint = next_step(context, session, job, to.output, "resume from its last snapshot with");
  return error;
}

// Finishes a job that is done, that saved and stopped, or that another terminal ended. Returns
// nothing for any other error.
std::optional<Status> finish_if_over(Context& context, ClusterSession& session,
                                     const std::string& job, const Destination& to,
                                     const JobSummary& summary, const Status& followed) {
  if (followed) return finish_job(context, session, job, to, summary);
  Error error = followed.error();
  if (error.code == Errc::kResumable) {
    error.hint = next_step(context, session, job, to.output, "resume with");
    const Status finished = finish_job(context, session, job, to, summary, "stopped");
    return finished ? Status(error) : finished;
  }
  if (error.code != Errc::kInterrupted || context.interrupted()) return std::nullopt;
  return Status(finish_ended_job(context, session, job, to, summary, error));
}

// How to continue a job whose start was broken off, that lost a node, that lost a process to a
// signal or with its machine, or whose own program failed. Empty for any other failure.
std::vector<std::string> ways_on(const Context& context, ClusterSession& session,
                                 const std::string& job, const std::string& output) {
  const auto processes = session.processes(job);
  const ProcessOnNode* const first = first_failure(processes);
  const bool is_lost = first != nullptr && (first->status.state == remote::ProcessState::kKilled ||
                                            first->status.state == remote::ProcessState::kLost);
  const auto broken = first == nullptr ? broken_start(session, processes) : std::nullopt;
  const bool lacks_node = !missing_processes(processes).empty();
  const bool is_own = first != nullptr && is_own_program(first->status);
  if (!is_lost && !broken && !lacks_node && !is_own) return {};
  std::vector<std::string> ways{
      next_step(context, session, job, output, "continue from its last snapshot")};
  if (is_own && !lacks_node && has_checkpoint(session, job, output)) {
    ways.push_back(
        fmt::format("or restart it with the files on its nodes: paddlectl restart {}", job));
  }
  if (is_lost && !lacks_node && first->status.restarts_allowed == 0)
    ways.emplace_back("next time, --restarts N restarts it automatically");
  return ways;
}

// How to resume a job if these nodes do not return.
std::string way_without(const std::vector<std::string>& nodes) {
  const std::string others = fmt::format("!{}", fmt::join(nodes, ",!"));
  return fmt::format("if {} not return, add --on {}",
                     nodes.size() == 1 ? "the node does" : "they do", shell_word(others));
}

// Ends a job that makes no progress because a node is silent, on the nodes that answer. `error`
// names the silent node.
Error end_without_silent(Context& context, ClusterSession& session, const std::string& job,
                         const Destination& to, Error error) {
  context.console.end_progress();
  context.console.note("stopping the rest of the job");
  const std::vector<std::string> silent = session.leave_out_unreachable();
  std::vector<std::string> ways = ways_on(context, session, job, to.output);
  if (has_checkpoint(session, job, to.output)) ways.push_back(way_without(silent));
  if (const Status stopped = stop_job(session, job); !stopped) {
    error.message += "\nsome processes could not be stopped: " + stopped.error().message;
    return error;
  }
  error.message += "; the rest of the job was stopped";
  for (const std::string& way : ways) error.hint += "; " + way;
  if (bring_home(context, session, job, to)) {
    add_report(context, session, job, to.output);
    context.console.note("logs are in " + shown_path(context, to.output + "/" + job));
  }
  return error;
}

// As kFailuresCountFor and kNodeAwaitedFor have it for processes and silent nodes.
constexpr Duration kRestartsCountFor = std::chrono::hours(1);
constexpr Duration kNodeAwaitedFor = std::chrono::minutes(10);

// Follows a job. As often as --restarts allows in an hour, it starts the job again after nodes were
// replaced or restarted: their processes cannot join the others, which know the keys and addresses
// of before.
class Follower {
 public:
  Follower(Context& context, ClusterSession& session, std::string job,
           const StartAgain& start_again)
      : context_(context), session_(session), job_(std::move(job)), start_again_(start_again) {}

  // follow_job(), of the last start.
  Status follow(JobSummary& summary, std::size_t past_tests = SIZE_MAX) {
    for (;;) {
      auto followed = follow_job(context_, session_, job_, summary, past_tests);
      if (followed || summary.returned_nodes.empty() || context_.interrupted()) return followed;
      const TimePoint now = context_.clock.now();
      std::erase_if(starts_, [&](TimePoint at) { return now - at >= kRestartsCountFor; });
      if (starts_.size() >= summary.restarts_allowed) return followed;
      starts_.push_back(now);
      auto started = start(followed.error(), summary);
      if (!started) {
        Error error = followed.error();
        error.message += "\nthe job was not started again: " + started.error().message;
        if (!started.error().hint.empty()) error.hint = started.error().hint;
        return error;
      }
      summary = JobSummary();
      summary.tests_told = *started;
      past_tests = SIZE_MAX;
    }
  }

 private:
  Result<std::size_t> start(const Error& cause, const JobSummary& summary) {
    const auto& nodes = summary.returned_nodes;
    std::string line;
    context_.console.end_progress();
    for (std::istringstream lines(cause.message); std::getline(lines, line);) {
      if (line.starts_with("node ")) context_.console.note(line);  // no last lines of a log
    }
    context_.console.note(
        fmt::format("{} is started again on all its nodes once {} {} ready (restart {} of {})",
                    job_, fmt::join(nodes, ", "), nodes.size() == 1 ? "is" : "are", starts_.size(),
                    summary.restarts_allowed));
    session_.reconnect(context_);
    PADDLE_TRY_STATUS(stop_job(session_, job_));
    // Shows other commands that the job is about to run again; they wait, or follow it.
    (void)claim_job(context_, session_, job_, {.command = JobCommand::kResume, .patient = false});
    const Duration asked = context_.limits.timeout;
    return start_again_(context_, session_,
                        context_.clock.now() + (asked > Duration() ? asked : kNodeAwaitedFor));
  }

  Context& context_;
  ClusterSession& session_;
  std::string job_;
  const StartAgain& start_again_;
  std::vector<TimePoint> starts_;
};

OptionList attach_options(ResultsOptions& options) {
  OptionList list = results_options(options);
  list.push_back(passes_option(options));
  return list;
}

Status run_attach(Context& context, const ResultsOptions& options) {
  PADDLE_TRY(const Destination to, destination(context, options));
  PADDLE_TRY(FoundJob found, find_job(context, options.target, Missing::kRefused));
  auto& [cluster, session, job] = found;
  tell_past(context, session, job);
  const auto processes = session.processes(job);
  if (std::ranges::any_of(processes, is_running, &ProcessOnNode::status))
    context.console.note(fmt::format("Ctrl-C leaves {} running", job));
  JobSummary summary;
  const StartAgain start_again = start_as_before(options, job);
  auto followed = Follower(context, session, job, start_again).follow(summary, kPastTestsShown);
  if (auto over = finish_if_over(context, session, job, to, summary, followed)) return *over;
  Error error = std::move(followed).error();
  if (error.code == Errc::kInterrupted) {
    error.message = fmt::format("detached from {}; it keeps running", job);
    return error;
  }
  if (summary.stands_still) return end_without_silent(context, session, job, to, std::move(error));
  if (session.unreachable() > 0) return error;
  return stop_after(context, session, job, to.output, std::move(error));
}

// The hint for a job without a snapshot on the nodes that answer: how to start it from the
// beginning.
std::string way_to_begin(ClusterSession& session, const std::string& job) {
  const auto processes = session.processes(job);
  const bool is_begun = broken_start(session, processes) && !has_trained(session, job);
  // A lost node may have had a snapshot.
  const bool lacks_node = !processes.empty() && !missing_processes(processes).empty();
  const std::string lead = lacks_node ? "no node has a snapshot of it" : "it has saved no snapshot";
  if (processes.empty() || is_begun) {
    return fmt::format("{}; start it again: paddlectl train --name {} <workspace>", lead, job);
  }
  if (lacks_node) {
    return fmt::format(
        "{0}; to start from the beginning: paddlectl rm {1}, then paddlectl train --name {1} "
        "<workspace>",
        lead, job);
  }
  return fmt::format(
      "{0}; start it again from its beginning: paddlectl restart {1}; or remove it: paddlectl rm "
      "{1}",
      lead, job);
}

}  // namespace

std::string next_step(const Context& context, ClusterSession& session, const std::string& job,
                      const std::string& output, std::string_view lead) {
  if (!has_checkpoint(session, job, output)) return way_to_begin(session, job);
  return way_to_resume(context, job, output).after(lead);
}

Result<Destination> destination(const Context& context, const ResultsOptions& options) {
  PADDLE_TRY(const PassChoice passes, parse_pass_choice(options.passes));
  const std::string& output = options.output;
  return Destination{output.starts_with('/') ? output : context.directory + "/" + output, passes};
}

Error stop_after(Context& context, ClusterSession& session, const std::string& job,
                 const std::string& output, Error error) {
  context.console.end_progress();
  context.console.note("stopping the rest of the job");
  session.reconnect(context);
  if (error.code == Errc::kInterrupted)
    (void)claim_job(context, session, job, {.command = JobCommand::kStopNow, .patient = false});
  std::vector<std::string> ways = ways_on(context, session, job, output);
  auto stopped = stop_job(session, job);
  if (!stopped && stopped.error().code == Errc::kUnreachable) {  // lost, and noticed only here
    session.reconnect(context);
    stopped = stop_job(session, job);
  }
  if (!stopped) {
    error.message += "\nsome processes could not be stopped: " + stopped.error().message;
    error.hint = fmt::format("run: paddlectl stop --job {}, or paddlectl teardown", job);
    if (error.code == Errc::kInterrupted) error.code = Errc::kFailed;
  } else if (error.code == Errc::kInterrupted) {
    error.message = fmt::format(
        "interrupted: {0} is stopped; fetch its logs and snapshots with paddlectl fetch {0}", job);
  } else {
    if (!error.hint.empty()) ways.insert(ways.begin(), error.hint);
    error.hint = fmt::format("{}", fmt::join(ways, "; "));
  }
  return error;
}

Status follow_to_end(Context& context, ClusterSession& session, const std::string& job,
                     const Destination& to, std::size_t past_tests, const StartAgain& start_again) {
  context.console.note("Ctrl-C saves and stops the job");
  JobSummary summary;
  summary.tests_told = past_tests;
  auto followed = Follower(context, session, job, start_again).follow(summary);
  if (!followed && context.interrupted() && context.take_interrupt)
    followed = follow_to_stop(context, session, job, summary);
  if (auto over = finish_if_over(context, session, job, to, summary, followed)) return *over;
  Error error = std::move(followed).error();
  if (summary.stands_still) return end_without_silent(context, session, job, to, std::move(error));
  const bool job_goes_on = session.unreachable() > 0 && error.code == Errc::kUnreachable;
  if (job_goes_on) return error;
  error = stop_after(context, session, job, to.output, std::move(error));
  if (error.code == Errc::kInterrupted) return error;
  if (bring_home(context, session, job, to)) {
    add_report(context, session, job, to.output);
    context.console.note("logs are in " + shown_path(context, to.output + "/" + job));
  }
  return error;
}

Command attach_command() {
  return {"attach", "follow a running job and fetch its results when it ends",
          "  paddlectl attach\n"
          "  paddlectl attach --job word2vec-20260101-120000",
          [] { return invocation(attach_options, run_attach); }};
}

}  // namespace paddle::cli
