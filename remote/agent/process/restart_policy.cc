#include "remote/agent/process/restart_policy.h"

#include <sys/wait.h>

#include <algorithm>

#include "base/result.h"

namespace paddle::agent {
namespace {

constexpr Duration kPauseMin = std::chrono::milliseconds(500);
constexpr Duration kPauseMax = std::chrono::seconds(8);
constexpr Duration kLongLife = std::chrono::seconds(60);
// Consecutive short runs: about ten minutes for the lost peer to come back.
constexpr std::uint32_t kLostPeerRestartsMax = 80;

}  // namespace

std::optional<Duration> RestartPolicy::next(int wait_status, Duration lived) {
  const bool was_killed = WIFSIGNALED(wait_status);
  const int code = was_killed ? 0 : WEXITSTATUS(wait_status);
  const bool lost_peer = code == static_cast<int>(Errc::kUnreachable);
  const bool failed =
      was_killed || (any_exit_ && code != 0 && code != static_cast<int>(Errc::kResumable));
  if (restarts_max_ == 0 || (!lost_peer && !failed)) return {};
  if (lived >= kLongLife || pause_ == Duration::zero()) {
    lost_peers_ = 0;
    pause_ = kPauseMin;
  }
  if (lost_peer ? ++lost_peers_ > kLostPeerRestartsMax : ++restarts_ > restarts_max_) return {};
  const Duration pause = pause_;
  pause_ = std::min(2 * pause_, kPauseMax);
  return pause;
}

}  // namespace paddle::agent
