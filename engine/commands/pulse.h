// A thread that tells the supervisor every second that this process lives and whether its main work
// goes on. It hangs only when the whole process does.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "proto/supervision.pb.h"

namespace paddle::commands {

class PulseThread {
 public:
  // `read` is called by the thread.
  explicit PulseThread(std::function<wire::Pulse()> read);
  ~PulseThread();
  PulseThread(const PulseThread&) = delete;
  PulseThread& operator=(const PulseThread&) = delete;

 private:
  void run();

  std::function<wire::Pulse()> read_;
  std::mutex mutex_;
  std::condition_variable ended_;
  bool is_ended_ = false;
  std::thread thread_;
};

}  // namespace paddle::commands
