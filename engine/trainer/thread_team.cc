#include "engine/trainer/thread_team.h"

#include <chrono>

namespace paddle::trainer {
namespace {

constexpr auto kIdleAwake = std::chrono::milliseconds(2);

}  // namespace

// True once done() is, within kIdleAwake; helps meanwhile.
template <class Done>
bool ThreadTeam::wait_awake(Done&& done) {
  if (done()) return true;
  auto until = std::chrono::steady_clock::now() + kIdleAwake;
  do {
    if (offer_.is_open) {
      help();
      until = std::chrono::steady_clock::now() + kIdleAwake;
    }
    std::this_thread::yield();
    if (done()) return true;
  } while (std::chrono::steady_clock::now() < until);
  return false;
}

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

void ThreadTeam::run(const Work& work) {
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

void ThreadTeam::share(std::size_t count, const Work& work) {
  if (threads_.empty() || count < 2 || offer_.is_taken.exchange(true)) {
    for (std::size_t i = 0; i < count; ++i) work(i);
    return;
  }
  offer_.work = &work;
  offer_.count = count;
  offer_.next = 0;
  offer_.is_open = true;
  work_on_offer();
  offer_.is_open = false;
  while (offer_.helpers > 0) std::this_thread::yield();
  offer_.is_taken = false;
}

void ThreadTeam::help() {
  // Counted first: whoever then finds the offer open is waited for.
  ++offer_.helpers;
  if (offer_.is_open) work_on_offer();
  --offer_.helpers;
}

void ThreadTeam::work_on_offer() {
  for (std::size_t i = offer_.next++; i < offer_.count; i = offer_.next++) (*offer_.work)(i);
}

}  // namespace paddle::trainer
