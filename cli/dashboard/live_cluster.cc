#include "cli/dashboard/live_cluster.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "cli/cluster/unknown_nodes.h"
#include "cli/job/restart.h"
#include "cli/job/stop.h"
#include "cli/watch/missing_processes.h"

namespace paddle::cli {
namespace {

constexpr auto kLookEvery = std::chrono::seconds(2);        // while a viewer is there
constexpr auto kLookSeldom = std::chrono::seconds(15);      // otherwise
constexpr auto kLookSoon = std::chrono::milliseconds(200);  // after a look, for a new viewer
constexpr auto kViewerStays = std::chrono::seconds(30);     // after its last question
constexpr std::size_t kLogRequestsMax = 256;
constexpr std::size_t kChangesMax = 8;  // at the same time

Error busy() {
  return {Errc::kResource, "the dashboard has too many requests at once", "try again"};
}

// An error of a command that knows the job and the process.
Error in_conflict(Error error) {
  if (error.code == Errc::kUsage) error.code = Errc::kFailed;
  return error;
}

Error ends() {
  return {Errc::kInterrupted, "the dashboard ends", ""};
}

}  // namespace

LiveCluster::LiveCluster(const Context& context, ClusterSpec cluster)
    : context_(with_console(context, console_)),
      cluster_(std::move(cluster)),
      watch_(context_, cluster_, context.directory + "/output") {
  context_.ask = {};
  context_.pause = [this](Duration limit) { pause(limit); };
  context_.interrupted = [this] { return is_over_.load(); };
  thread_ = std::thread([this] { run(); });
}

LiveCluster::~LiveCluster() {
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  changed_.notify_all();
  thread_.join();
  for (ChangeThread& change : changes_) change.thread.join();
  for (const LogRequest& request : log_requests_) request.done(ends());
}

void LiveCluster::pause(Duration limit) {
  std::unique_lock lock(mutex_);
  const TimePoint end = clock_now() + limit;
  changed_.wait_until(lock, end, [this] { return is_over_.load(); });
}

void LiveCluster::run() {
  while (!is_over_) {
    const TimePoint began = clock_now();
    store_.publish(look());
    {
      const std::lock_guard lock(calling_);
      if (call_) call_();
    }
    wait_for_next_look(began);
  }
}

LiveStore::Look LiveCluster::look() {
  RecordSlots::Choice choice;
  {
    const std::lock_guard lock(mutex_);
    choice = slots_.choose(clock_now());
  }
  LiveStore::Look seen = watch_.round(choice.records, choice.crowded);
  const std::lock_guard lock(mutex_);
  slots_.know(seen.known);
  return seen;
}

void LiveCluster::wait_for_next_look(TimePoint looked) {
  std::unique_lock lock(mutex_);
  bool has_read_logs = false;
  while (!is_over_) {
    const TimePoint now = clock_now();
    const bool is_viewed = viewed_ && now - *viewed_ < kViewerStays;
    TimePoint due = looked + (is_viewed ? Duration(kLookEvery) : Duration(kLookSeldom));
    if (looks_soon_ || watch_.has_more()) due = looked + kLookSoon;
    const bool is_due = now >= due || watch_.has_new_connections();
    if (!log_requests_.empty() && !(is_due && has_read_logs)) {
      std::vector<LogRequest> requests = next_log_requests();
      lock.unlock();
      watch_.read_logs(std::move(requests));
      lock.lock();
      has_read_logs = true;
      continue;
    }
    if (is_due) {
      looks_soon_ = false;
      return;
    }
    if (watch_.is_connecting()) due = std::min<TimePoint>(due, now + kLookSoon);
    changed_.wait_until(lock, due);
  }
}

std::vector<LogRequest> LiveCluster::next_log_requests() {
  const auto end = log_requests_.begin() + static_cast<std::ptrdiff_t>(std::min<std::size_t>(
                                               log_requests_.size(), kLogsKeptMax));
  std::vector<LogRequest> requests(std::make_move_iterator(log_requests_.begin()),
                                   std::make_move_iterator(end));
  log_requests_.erase(log_requests_.begin(), end);
  return requests;
}

void LiveCluster::note_viewer(const std::string& job) {
  {
    const std::lock_guard lock(mutex_);
    const TimePoint now = clock_now();
    const bool was_viewed = viewed_ && now - *viewed_ < kViewerStays;
    const bool is_new = !job.empty() && slots_.ask(job, now);
    viewed_ = now;
    if (was_viewed && !is_new) return;
    looks_soon_ = true;
  }
  changed_.notify_all();
}

void LiveCluster::look_soon() {
  {
    const std::lock_guard lock(mutex_);
    looks_soon_ = true;
  }
  changed_.notify_all();
}

LiveUpdate LiveCluster::since(const std::string& job, std::uint64_t seen) {
  note_viewer(job);
  return store_.since(job, seen);
}

void LiveCluster::on_change(std::function<void()> call) {
  const std::lock_guard lock(calling_);
  call_ = std::move(call);
}

std::string LiveCluster::metrics() {
  note_viewer("");
  return store_.metrics();
}

void LiveCluster::log(const std::string& job, const std::string& process,
                      std::optional<std::uint64_t> offset,
                      std::function<void(Result<LogPart>)> done) {
  bool is_taken = false;
  {
    const std::lock_guard lock(mutex_);
    viewed_ = clock_now();
    is_taken = log_requests_.size() < kLogRequestsMax && !is_over_;
    if (is_taken) log_requests_.push_back({job, process, offset, done});
  }
  if (is_taken) {
    changed_.notify_all();
  } else {
    done(busy());
  }
}

void LiveCluster::change(const std::string& job, const std::string& process, Change change,
                         std::function<void(Result<std::string>)> done) {
  bool is_taken = false;
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(changes_, [](ChangeThread& one) {
      if (!one.is_over) return false;
      one.thread.join();
      return true;
    });
    is_taken = changes_.size() < kChangesMax && !is_over_;
    if (is_taken) {
      ChangeThread& one = changes_.emplace_back();
      one.thread = std::thread([this, &one, job, process, change, done] {
        done(carry_out(job, process, change));
        look_soon();
        one.is_over = true;
      });
    }
  }
  if (!is_taken) done(busy());
}

Result<std::string> LiveCluster::carry_out(const std::string& job, const std::string& process,
                                           Change change) {
  std::ostringstream unseen;
  Console console(unseen, unseen, {});
  Context context = with_console(context_, console);
  ClusterSession session = ClusterSession::find_all(context, cluster_);
  PADDLE_TRY_STATUS(choose_job(session, job));
  if (session.unreachable() > 0 && size_of_job(session.look(context.clock, job).processes).all_seen)
    (void)session.leave_out_unreachable();
  if (change == Change::kRestart) return restart(context, session, job, process);
  return stop(context, session, job, change == Change::kStopNow);
}

Result<std::string> LiveCluster::stop(Context& context, ClusterSession& session,
                                      const std::string& job, bool now) {
  session.forgive_absent();
  Status reached = session.all_well();
  auto ended = save_and_end(context, session, job, now);
  if (!ended) return in_conflict(std::move(ended).error());
  if (reached && ended->lost && ended->stopped > 0)
    reached = with_unknown_nodes(context, session, cluster_, *ended->lost);
  if (reached) return ended->text(job);
  return std::move(reached).error().with(ended->text(job));
}

Result<std::string> LiveCluster::restart(Context& context, ClusterSession& session,
                                         const std::string& job, const std::string& process) {
  if (process.empty()) {
    return Error{Errc::kUsage, "a restart needs the name of a process",
                 "restart the whole job with: paddlectl restart " + job};
  }
  session.forgive_absent();
  PADDLE_TRY_STATUS(session.all_well());
  const auto name = [](const ProcessOnNode& one) { return one.status.name; };
  const auto processes = session.processes(job);
  PADDLE_TRY_STATUS(session.all_well());
  if (std::ranges::find(processes, process, name) == processes.end()) {
    return Error{Errc::kUsage, fmt::format("job {} has no process '{}'", job, process),
                 "choose a process of the job"};
  }
  if (auto done = check_not_done(session, job); !done) return in_conflict(std::move(done).error());
  if (const auto broken = find_broken_start(context, session, job)) {
    return Error{Errc::kFailed, describe(*broken, job),
                 fmt::format("start it again: paddlectl train --name {} <workspace>", job)};
  }
  auto restarted = restart_process(context, session, job, process);
  if (!restarted) return in_conflict(std::move(restarted).error());
  return restarted;
}

}  // namespace paddle::cli
