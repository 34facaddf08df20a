#include "engine/strategy/sender.h"

#include <algorithm>

#include "base/check.h"

namespace paddle::strategy {

PushWindow push_dense_through(client::ShardChannels& shards) {
  return [&shards](Window& window) {
    return shards.push({window.batches, window.samples, window.cost}, window.dense);
  };
}

PushWindow push_rows_through(client::ShardChannels& shards) {
  return [&shards](Window& window) {
    return shards.push({window.batches, window.samples, window.cost}, window.rows);
  };
}

Sender::Sender(Communicator::Options options, PushWindow push)
    : core_(options), push_(std::move(push)), thread_([this] { serve(); }) {}

Sender::~Sender() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

Status Sender::add(const client::PushTotals& totals, std::span<const client::DenseParameter> dense,
                   std::span<const client::SparseRows> rows, bool hold,
                   std::vector<client::DenseParameter>* values) {
  std::unique_lock lock(mutex_);
  core_.on_gradient(totals, dense, rows);
  // Release the window that this call waits for; holding it back would deadlock.
  released_ = std::max(released_, hold ? core_.must_be_answered() : core_.closed());
  changed_.notify_all();
  return wait_for(lock, core_.must_be_answered(), values);
}

Status Sender::ask(const std::function<Status()>& ask) {
  std::unique_lock lock(mutex_);
  PADDLE_CHECK(ask_ == nullptr);
  changed_.wait(lock, [this] { return failed_ || core_.answered() >= released_; });
  if (failed_) return *failed_;
  ask_ = &ask;
  changed_.notify_all();
  changed_.wait(lock, [this] { return ask_ == nullptr; });
  if (failed_) return *failed_;
  released_ = core_.closed();
  changed_.notify_all();
  return {};
}

Status Sender::flush(std::vector<client::DenseParameter>* values) {
  std::unique_lock lock(mutex_);
  core_.flush();
  released_ = core_.closed();
  changed_.notify_all();
  return wait_for(lock, core_.closed(), values);
}

Status Sender::wait_for(std::unique_lock<std::mutex>& lock, std::uint64_t window,
                        std::vector<client::DenseParameter>* values) {
  changed_.wait(lock, [&] { return failed_ || core_.answered() >= window; });
  if (failed_) return *failed_;
  if (values == nullptr) return {};
  const auto found = answers_.find(window);
  if (found != answers_.end()) *values = std::move(found->second);
  answers_.erase(answers_.begin(), answers_.upper_bound(window));
  return {};
}

void Sender::serve() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return over_ || ask_ != nullptr || can_push(); });
    if (over_) return;
    if (ask_ != nullptr) {
      const auto& ask = *ask_;
      lock.unlock();
      Status done = ask();
      lock.lock();
      if (!done) failed_ = std::move(done).error();
      ask_ = nullptr;
    } else {
      Window* const window = core_.send();
      PADDLE_CHECK(window != nullptr);
      lock.unlock();
      Status pushed = push_(*window);
      lock.lock();
      if (pushed) {
        if (!window->dense.empty()) answers_[window->number] = std::move(window->dense);
        core_.on_answer();
      } else {
        failed_ = std::move(pushed).error();
      }
    }
    changed_.notify_all();
  }
}

}  // namespace paddle::strategy
