// A fixed team of threads that do the same work on different parts, again and again.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace paddle::trainer {

// Between two runs its threads stay awake for kIdleAwake, giving way to any other thread: to wake
// a sleeping core takes longer than what the trainer does between its batches' parts.
class ThreadTeam {
 public:
  using Work = std::function<void(std::size_t)>;

  explicit ThreadTeam(std::size_t size);
  ~ThreadTeam();
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

  std::size_t size() const { return threads_.size() + 1; }
  // Calls work(0) .. work(size() - 1) at the same time, work(0) on the calling thread; returns when
  // all have.
  void run(const Work& work);
  // Calls work(0) .. work(count - 1), each once, on the calling thread and on those of the team
  // that are awake with nothing to do; returns when all have. May be called within run(), by
  // several threads: the first two are helped.
  void share(std::size_t count, const Work& work);

 private:
  // What share() offers to the others.
  struct alignas(64) Offer {
    std::atomic<bool> is_taken = false;  // by a caller
    std::atomic<bool> is_open = false;   // publishes the two below
    const Work* work = nullptr;
    std::size_t count = 0;
    std::atomic<std::size_t> next = 0;
    std::atomic<std::size_t> helpers = 0;  // within; it ends when they have left
  };

  void serve(std::size_t part);
  bool help();  // false: there was nothing to do
  static void work_on(Offer& offer);
  template <class Done>
  bool wait_awake(Done&& done);

  std::mutex mutex_;  // of the changes that sleepers wait for
  std::condition_variable started_, finished_;
  const Work* work_ = nullptr;
  std::atomic<std::uint64_t> generation_ = 0;
  std::atomic<std::size_t> running_ = 0;
  std::atomic<bool> over_ = false;
  std::array<Offer, 2> offers_;  // dense parameters and rows
  std::vector<std::thread> threads_;
};

}  // namespace paddle::trainer
