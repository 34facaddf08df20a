#include "engine/trainer/thread_team.h"

#include <chrono>

namespace paddle::trainer {
namespace {

constexpr auto kIdleAwake = std::chrono::milliseconds(2);

// True once done() is, within kIdleAwake.
template <class Done>
bool wait_awake(Done&& done) {
  if (done()) return true;
  const auto until = std::chrono::steady_clock::now() + kIdleAwake;
  do {
    std::this_thread::yield();
    if (done()) return true;
  } while (std::chrono::steady_clock::now() < until);
  return false;
}

}  // namespace

ThreadTeam::ThreadTeam(std::size_t size) {
  for (std::size_t part = 1; part < size; ++part) {
    threads_.emplace_back([this, part] { serve(part); });
  }
}

ThreadTeam::~ThreadTeam() {
  {
    const std::scoped_lock lock(mutex_);
    over_ = true;
  }
  started_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void ThreadTeam::run(const std::function<void(std::size_t)>& work) {
  if (threads_.empty()) return work(0);
  {
    const std::scoped_lock lock(mutex_);
    work_ = &work;
    running_ = threads_.size();
    ++generation_;  // publishes the two above
  }
  started_.notify_all();
  work(0);
  const auto all_done = [this] { return running_ == 0; };
  if (wait_awake(all_done)) return;
  std::unique_lock lock(mutex_);
  finished_.wait(lock, all_done);
}

void ThreadTeam::serve(std::size_t part) {
  std::uint64_t seen = 0;
  const auto is_called = [&] { return over_ || generation_ != seen; };
  for (;;) {
    if (!wait_awake(is_called)) {
      std::unique_lock lock(mutex_);
      started_.wait(lock, is_called);
    }
    if (over_) return;
    ++seen;  // the next run waits for this one
    (*work_)(part);
    if (--running_ > 0) continue;
    const std::scoped_lock lock(mutex_);
    finished_.notify_one();
  }
}

}  // namespace paddle::trainer
