// The thread of one kind of parameters: it owns their lanes, pushes windows, and runs what else
// must go through those lanes. A thin adapter around a Communicator.
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <thread>

#include "engine/strategy/communicator.h"

namespace paddle::strategy {

// For one caller. After the first error nothing more is sent, and every call returns it.
class Sender {
 public:
  // Pushes a window; returns the dense values that came back (none for rows).
  using PushWindow = std::function<Result<std::vector<client::DenseParameter>>(const Window&)>;

  Sender(Communicator::Options options, PushWindow push);
  ~Sender();  // what was not sent is not
  Sender(const Sender&) = delete;
  Sender& operator=(const Sender&) = delete;

  // Gradients of a batch, to be sent at once, or to be held back for the next ask(). Waits while
  // the queue is full; `values`, if not null, becomes those of the window that then must be
  // answered, or stays empty.
  Status add(const client::PushTotals& totals, std::span<const client::DenseParameter> dense,
             std::span<const client::SparseRows> rows, bool hold,
             std::vector<client::DenseParameter>* values);
  // Runs `ask` on the thread, after the windows that were sent and before those held back, and
  // waits for it.
  Status ask(const std::function<Status()>& ask);
  // Every gradient is pushed and answered. `values`, if not null, becomes those of the last window;
  // otherwise later calls of add() still get theirs.
  Status flush(std::vector<client::DenseParameter>* values);

 private:
  Status wait_for(std::unique_lock<std::mutex>& lock, std::uint64_t window,
                  std::vector<client::DenseParameter>* values);
  void serve();
  bool can_push() const { return !failed_ && core_.answered() < released_; }

  std::mutex mutex_;
  std::condition_variable changed_;
  Communicator core_;
  PushWindow push_;
  std::uint64_t released_ = 0;  // windows that may be sent
  std::map<std::uint64_t, std::vector<client::DenseParameter>> answers_;
  const std::function<Status()>* ask_ = nullptr;
  std::optional<Error> failed_;
  bool over_ = false;
  std::thread thread_;
};

}  // namespace paddle::strategy
