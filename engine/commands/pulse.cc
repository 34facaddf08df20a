#include "engine/commands/pulse.h"

#include <csignal>
#include <utility>

#include "base/clock.h"
#include "engine/commands/notice.h"

namespace paddle::commands {
namespace {

constexpr Duration kPeriod = std::chrono::seconds(1);

}  // namespace

PulseThread::PulseThread(std::function<wire::Pulse()> read) : read_(std::move(read)) {
  // Signals are for the threads that expect them.
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { run(); });
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

PulseThread::~PulseThread() {
  {
    const std::scoped_lock lock(mutex_);
    is_ended_ = true;
  }
  ended_.notify_all();
  thread_.join();
}

void PulseThread::run() {
  std::unique_lock lock(mutex_);
  do {
    notify_pulse(read_());
  } while (!ended_.wait_for(lock, kPeriod, [this] { return is_ended_; }));
}

}  // namespace paddle::commands
