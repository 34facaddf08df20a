// Threads for loops whose iterations may run in any order: for_each_parallel() starts threads for
// one blocking loop, HelperPool lends sleeping threads to several callers, ThreadTeam keeps a
// trainer's threads awake.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace paddle {

using ParallelWork = std::function<void(std::size_t)>;
// Calls work(0) .. work(count - 1), each once, in any order and possibly at the same time; returns
// when all have returned.
using Parallel = std::function<void(std::size_t count, const ParallelWork& work)>;

// A Parallel on the calling thread and up to `at_once` - 1 threads that exist for this call only:
// for work that blocks. `work` must not throw.
void for_each_parallel(std::size_t count, const ParallelWork& work, std::size_t at_once);

// One loop that several threads take iterations from.
struct SharedLoop {
  void run() {
    for (std::size_t i = next++; i < count; i = next++) (*work)(i);
  }

  const ParallelWork* work = nullptr;
  std::size_t count = 0;
  std::atomic<std::size_t> next = 0;
  std::atomic<std::size_t> helpers = 0;  // threads within run() besides the caller
};

// Threads that sleep until any caller has a loop for them, and stay awake briefly after it, since
// loops come in groups. A call has to wake them, which pays off for long loops only.
class HelperPool {
 public:
  explicit HelperPool(std::size_t count);
  ~HelperPool();
  HelperPool(const HelperPool&) = delete;
  HelperPool& operator=(const HelperPool&) = delete;

  std::size_t count() const { return threads_.size(); }
  // A Parallel on the calling thread and idle helpers. Any number of threads may call it at the
  // same time. Short loops stay on the calling thread.
  void parallel_for(std::size_t count, const ParallelWork& work);

 private:
  void serve();
  void close(const SharedLoop& loop);  // REQUIRES: holds mutex_

  std::mutex mutex_;  // guards loops_ and changes to SharedLoop::helpers
  std::condition_variable opened_, left_;
  std::vector<SharedLoop*> loops_;     // helpers may enter these
  std::atomic<std::size_t> open_ = 0;  // loops_.size()
  std::atomic<bool> is_over_ = false;
  std::vector<std::thread> threads_;
};

// A fixed set of threads that run in lockstep: part p always runs on thread p, so its data stays in
// that core's caches. Between runs they spin for milliseconds, yielding to any other thread: waking
// a sleeping core takes longer than the work between two runs. HelperPool cannot serve this: its
// parts go to any thread, and each call pays for a wake-up. parallel_for() here wakes no thread.
class ThreadTeam {
 public:
  explicit ThreadTeam(std::size_t size);
  ~ThreadTeam();
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

  std::size_t size() const { return threads_.size() + 1; }
  // Calls work(0) .. work(size() - 1) at the same time, work(0) on the calling thread; returns when
  // all have returned.
  void run(const ParallelWork& work);
  // A Parallel on the calling thread and the members that are awake and idle. May be called within
  // run(); of several concurrent callers the first two get help.
  void parallel_for(std::size_t count, const ParallelWork& work);

 private:
  struct alignas(64) Slot {
    SharedLoop loop;
    std::atomic<bool> is_taken = false;  // by a caller
    std::atomic<bool> is_open = false;   // publishes loop.work and loop.count
  };

  void serve(std::size_t part);
  bool help();  // false: no slot was open
  template <class Done>
  bool spin_until(Done&& done);

  std::mutex mutex_;  // guards the changes that sleeping threads wait for
  std::condition_variable started_, finished_;
  const ParallelWork* work_ = nullptr;
  std::atomic<std::uint64_t> generation_ = 0;
  std::atomic<std::size_t> running_ = 0;
  std::atomic<bool> is_over_ = false;
  std::array<Slot, 2> slots_;  // a push applies dense and sparse parameters at the same time
  std::vector<std::thread> threads_;
};

}  // namespace paddle
