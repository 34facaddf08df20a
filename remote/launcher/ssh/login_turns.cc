#include "remote/launcher/ssh/login_turns.h"

#include <algorithm>
#include <condition_variable>
#include <map>
#include <mutex>
#include <random>

#include <fmt/format.h>

namespace paddle::remote {
namespace {

constexpr Duration kPauseMin = std::chrono::milliseconds(100);
constexpr Duration kPauseMax = std::chrono::seconds(2);

class LoginTurns {
 public:
  Result<LoginTurn> take(const std::string& door, TimePoint deadline) {
    std::unique_lock lock(mutex_);
    const auto is_free = [&] {
      const auto found = under_way_.find(door);
      return found == under_way_.end() || found->second < kLoginsAtOnce;
    };
    if (!freed_.wait_until(lock, deadline, is_free)) {
      return Error{Errc::kUnreachable,
                   fmt::format("{} other logins there took until the deadline", kLoginsAtOnce),
                   "give it longer with --timeout"};
    }
    ++under_way_[door];
    return LoginTurn(static_cast<void*>(this), [this, door](void*) { give_back(door); });
  }

 private:
  void give_back(const std::string& door) {
    const std::lock_guard lock(mutex_);
    const auto found = under_way_.find(door);
    if (--found->second == 0) under_way_.erase(found);
    freed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable freed_;
  std::map<std::string, int> under_way_;  // by door
};

}  // namespace

Result<LoginTurn> take_login_turn(const std::string& door, TimePoint deadline) {
  static LoginTurns turns;
  return turns.take(door, deadline);
}

Duration pause_before_login_try(int tries) {
  thread_local std::minstd_rand random(std::random_device{}());
  Duration longest = kPauseMin;
  for (int i = 1; i < tries && longest < kPauseMax; ++i) longest *= 2;
  longest = std::min(longest, kPauseMax);
  std::uniform_int_distribution<Duration::rep> part(longest.count() / 2, longest.count());
  return Duration(part(random));
}

}  // namespace paddle::remote
