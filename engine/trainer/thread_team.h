// A fixed team of threads that do the same work on different parts, again and again.
#pragma once

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
  explicit ThreadTeam(std::size_t size);
  ~ThreadTeam();
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

  std::size_t size() const { return threads_.size() + 1; }
  // Calls work(0) .. work(size() - 1) at the same time, work(0) on the calling thread; returns when
  // all have.
  void run(const std::function<void(std::size_t)>& work);

 private:
  void serve(std::size_t part);

  std::mutex mutex_;  // of the changes that sleepers wait for
  std::condition_variable started_, finished_;
  const std::function<void(std::size_t)>* work_ = nullptr;
  std::atomic<std::uint64_t> generation_ = 0;
  std::atomic<std::size_t> running_ = 0;
  std::atomic<bool> over_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace paddle::trainer
