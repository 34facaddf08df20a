#include "remote/agent/process/restart_policy.h"

#include <sys/wait.h>

#include <algorithm>
#include <utility>

#include "base/result.h"

namespace paddle::agent {
namespace {

constexpr Duration kPauseMin = std::chrono::milliseconds(500);
constexpr Duration kPauseMax = std::chrono::seconds(8);
constexpr Duration kLongRun = std::chrono::seconds(60);
constexpr Duration kFailuresCountFor = std::chrono::hours(1);
// Time for the lost peer to be restarted and for the job to progress again.
constexpr Duration kPeersAwaitedFor = std::chrono::minutes(10);

}  // namespace

std::optional<Duration> RestartPolicy::next(const Run& run) {
  const bool was_killed = WIFSIGNALED(run.wait_status);
  const int code = was_killed ? 0 : WEXITSTATUS(run.wait_status);
  if (restarts_max_ == 0) return {};
  // INVARIANT: a lost peer is no failure of its own.
  if (code == static_cast<int>(Errc::kUnreachable)) return after_lost_peer(run);
  const bool failed =
      was_killed || (any_exit_ && code != 0 && code != static_cast<int>(Errc::kResumable));
  return failed ? after_failure(run) : std::nullopt;
}

std::optional<Duration> RestartPolicy::after_lost_peer(const Run& run) {
  const bool has_progressed = run.has_progressed.value_or(run.ended - run.started >= kLongRun);
  if (has_progressed) peers_lost_from_ = run.progressed_at.value_or(run.ended);
  if (!peers_lost_from_) peers_lost_from_ = run.ended;
  if (run.ended - *peers_lost_from_ >= kPeersAwaitedFor) return {};
  return kPauseMin;
}

std::optional<Duration> RestartPolicy::after_failure(const Run& run) {
  if (run.has_progressed.value_or(true)) peers_lost_from_.reset();
  while (!failed_.empty() && run.ended - failed_.front() >= kFailuresCountFor) failed_.pop_front();
  failed_.push_back(run.ended);
  if (failed_.size() > restarts_max_) return {};
  const bool was_good = run.has_progressed.value_or(false) || run.ended - run.started >= kLongRun;
  if (was_good || pause_ == Duration::zero()) pause_ = kPauseMin;
  return std::exchange(pause_, std::min(2 * pause_, kPauseMax));
}

}  // namespace paddle::agent
