#include "base/pool.h"

#include <algorithm>
#include <chrono>
#include <system_error>

namespace paddle {
namespace {

using std::chrono::steady_clock;

constexpr auto kHelperAwake = std::chrono::microseconds(100);
constexpr auto kTeamAwake = std::chrono::milliseconds(2);
// A shorter loop ends before a sleeping core is awake.
constexpr std::size_t kHelpedIterationsMin = 8;

// Returns true once done() holds, false if it does not hold within `limit`. step() returns true if
// it did something, which restarts the limit.
template <class Done, class Step>
bool spin(steady_clock::duration limit, Done&& done, Step&& step) {
  if (done()) return true;
  auto until = steady_clock::now() + limit;
  do {
    if (step()) until = steady_clock::now() + limit;
    std::this_thread::yield();
    if (done()) return true;
  } while (steady_clock::now() < until);
  return false;
}

template <class Done>
bool spin_as_helper(Done&& done) {
  return spin(kHelperAwake, done, [] { return false; });
}

}  // namespace

void for_each_parallel(std::size_t count, const ParallelWork& work, std::size_t at_once) {
  SharedLoop loop{&work, count};
  std::vector<std::jthread> threads;
  try {
    for (std::size_t i = 1; i < std::min(count, at_once); ++i) {
      threads.emplace_back([&loop] { loop.run(); });
    }
  } catch (const std::system_error&) {
    // The system refuses a thread; the threads that have started do all the work.
  }
  loop.run();
}

HelperPool::HelperPool(std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) threads_.emplace_back([this] { serve(); });
}

HelperPool::~HelperPool() {
  {
    const std::scoped_lock lock(mutex_);
    is_over_ = true;
  }
  opened_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void HelperPool::parallel_for(std::size_t count, const ParallelWork& work) {
  SharedLoop loop{&work, count};
  if (threads_.empty() || count < kHelpedIterationsMin) return loop.run();
  {
    const std::scoped_lock lock(mutex_);
    loops_.push_back(&loop);
    open_ = loops_.size();
  }
  opened_.notify_all();
  loop.run();
  {
    const std::scoped_lock lock(mutex_);
    close(loop);
  }
  const auto is_left = [&loop] { return loop.helpers == 0; };
  const bool is_alone = spin_as_helper(is_left);
  // Locks in any case: the last helper may still hold the mutex and use the loop.
  std::unique_lock lock(mutex_);
  if (!is_alone) left_.wait(lock, is_left);
}

void HelperPool::serve() {
  std::unique_lock lock(mutex_);
  while (!is_over_) {
    if (loops_.empty()) {
      lock.unlock();
      const bool is_called = spin_as_helper([this] { return is_over_ || open_ > 0; });
      lock.lock();
      if (!is_called) opened_.wait(lock, [this] { return is_over_ || !loops_.empty(); });
      continue;
    }
    SharedLoop& loop = *loops_.front();
    ++loop.helpers;
    lock.unlock();
    loop.run();
    lock.lock();
    close(loop);
    if (--loop.helpers == 0) left_.notify_all();
  }
}

void HelperPool::close(const SharedLoop& loop) {
  std::erase(loops_, &loop);
  open_ = loops_.size();
}

ThreadTeam::ThreadTeam(std::size_t size) {
  for (std::size_t part = 1; part < size; ++part) {
    threads_.emplace_back([this, part] { serve(part); });
  }
}

ThreadTeam::~ThreadTeam() {
  {
    const std::scoped_lock lock(mutex_);
    is_over_ = true;
  }
  started_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

template <class Done>
bool ThreadTeam::spin_until(Done&& done) {
  return spin(kTeamAwake, done, [this] { return help(); });
}

void ThreadTeam::run(const ParallelWork& work) {
  if (threads_.empty()) return work(0);
  {
    const std::scoped_lock lock(mutex_);
    work_ = &work;
    running_ = threads_.size();
    ++generation_;  // publishes work_ and running_
  }
  started_.notify_all();
  work(0);
  const auto all_done = [this] { return running_ == 0; };
  if (spin_until(all_done)) return;
  std::unique_lock lock(mutex_);
  finished_.wait(lock, all_done);
}

void ThreadTeam::serve(std::size_t part) {
  std::uint64_t seen = 0;
  const auto is_called = [&] { return is_over_ || generation_ != seen; };
  for (;;) {
    if (!spin_until(is_called)) {
      std::unique_lock lock(mutex_);
      started_.wait(lock, is_called);
    }
    if (is_over_) return;
    ++seen;  // no run is missed: the next one starts after this one has ended
    (*work_)(part);
    if (--running_ > 0) continue;
    const std::scoped_lock lock(mutex_);
    finished_.notify_one();
  }
}

void ThreadTeam::parallel_for(std::size_t count, const ParallelWork& work) {
  const auto free =
      threads_.empty() || count < 2
          ? slots_.end()
          : std::ranges::find_if(slots_, [](Slot& slot) { return !slot.is_taken.exchange(true); });
  if (free == slots_.end()) {
    for (std::size_t i = 0; i < count; ++i) work(i);
    return;
  }
  SharedLoop& loop = free->loop;
  loop.work = &work;
  loop.count = count;
  loop.next = 0;
  free->is_open = true;
  loop.run();
  free->is_open = false;
  while (loop.helpers > 0) std::this_thread::yield();
  free->is_taken = false;
}

bool ThreadTeam::help() {
  bool has_helped = false;
  for (Slot& slot : slots_) {
    if (!slot.is_open) continue;
    // Counted before is_open is read again: the caller waits for every helper that still reads
    // true.
    ++slot.loop.helpers;
    if (slot.is_open) slot.loop.run();
    --slot.loop.helpers;
    has_helped = true;
  }
  return has_helped;
}

}  // namespace paddle
