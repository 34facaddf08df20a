// A thread that does one thing at a time beside its owner. Between two things it sleeps.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace paddle::strategy {

class SideThread {
 public:
  SideThread() : thread_([this] { run(); }) {}
  ~SideThread();
  SideThread(const SideThread&) = delete;
  SideThread& operator=(const SideThread&) = delete;

  // One begin(), then one wait() for its end. `work` must not throw.
  void begin(std::function<void()> work);
  void wait();

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::function<void()> work_;  // null: nothing to do
  bool is_over_ = false;
  std::thread thread_;
};

}  // namespace paddle::strategy
