// A thread that pushes one kind of parameters while training continues. It owns the lanes of this
// kind, so other requests on these lanes run on it, too. An adapter around a Communicator.
#pragma once

#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <thread>

#include "engine/client/shard_channels.h"
#include "engine/strategy/communicator.h"

namespace paddle::strategy {

// Pushes a window, whose dense parameters then have the new values.
using PushWindow = std::function<Status(Window&)>;
PushWindow push_dense_through(client::ShardChannels& shards);
PushWindow push_rows_through(client::ShardChannels& shards);

// One thread makes all calls. After the first error nothing more is sent, and every call returns
// that error.
class Sender {
 public:
  Sender(Communicator::Options options, PushWindow push);
  ~Sender();  // drops windows that were not sent
  Sender(const Sender&) = delete;
  Sender& operator=(const Sender&) = delete;

  // Adds the gradients of a batch, to be sent at once, or (hold) after the next ask(). Waits while
  // the queue is full; `values`, if not null, becomes the values of the window that it waited for,
  // or stays empty.
  Status add(const client::PushTotals& totals, std::span<const client::DenseParameter> dense,
             std::span<const client::SparseRows> rows, bool hold,
             std::vector<client::DenseParameter>* values);
  // Runs `ask` on the thread, after the windows that were sent and before those held back, and
  // waits for its end.
  Status ask(const std::function<Status()>& ask);
  // Waits until every gradient is pushed and answered. `values`, if not null, becomes the values of
  // the last window; if null, later calls of add() still get the values of their windows.
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
