#include "engine/snapshot/folder_savepoint_store.h"

#include <future>
#include <utility>

#include <fmt/format.h>

#include "base/log.h"
#include "base/thread.h"

namespace paddle::snapshot {

SavepointThread::SavepointThread() {
  thread_ = thread_without_signals([this] { serve(); });
}

SavepointThread::~SavepointThread() {
  {
    const std::scoped_lock lock(mutex_);
    is_over_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void SavepointThread::run(std::function<void()> work) {
  {
    const std::scoped_lock lock(mutex_);
    queue_.push_back(std::move(work));
  }
  changed_.notify_all();
}

void SavepointThread::wait() {
  const auto done = std::make_shared<std::promise<void>>();
  run([done] { done->set_value(); });
  done->get_future().wait();
}

void SavepointThread::serve() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return is_over_ || !queue_.empty(); });
    if (queue_.empty()) return;
    std::function<void()> work = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    work();
    work = nullptr;  // frees its bytes without holding the lock
    lock.lock();
  }
}

Result<std::unique_ptr<FolderSavepointStore>> FolderSavepointStore::open(const std::string& folder,
                                                                         std::uint64_t fingerprint,
                                                                         SavepointWorker* worker,
                                                                         FileSystem& files) {
  PADDLE_TRY(SavepointFolder opened, SavepointFolder::open(files, folder, fingerprint));
  return std::unique_ptr<FolderSavepointStore>(new FolderSavepointStore(std::move(opened), worker));
}

FolderSavepointStore::FolderSavepointStore(SavepointFolder folder, SavepointWorker* worker)
    : worker_(worker), folder_(std::move(folder)) {
  publish();
}

FolderSavepointStore::~FolderSavepointStore() {
  drop_open();
  wait();
}

void FolderSavepointStore::begin(std::uint64_t number, bool is_full) {
  drop_open();
  const auto after = followed();
  PADDLE_CHECK(is_full || after);
  newest_ = std::make_shared<Savepoint>();
  newest_->number = number;
  if (!is_full) newest_->after = after;
  is_open_ = true;
  run([this, savepoint = newest_] {
    if (!savepoint->is_dropped)
      settle(*savepoint, folder_.begin(savepoint->number, savepoint->after));
  });
}

std::optional<std::uint64_t> FolderSavepointStore::followed() const {
  if (newest_) {
    // With a worker the newest savepoint may fail at any time; the worker then refuses the
    // savepoints that follow.
    const bool is_known_to_fail = worker_ == nullptr && newest_->has_failed;
    if (newest_->is_dropped || is_known_to_fail) return {};
    return newest_->number;
  }
  const auto numbers = whole();
  if (numbers.empty()) return {};
  return numbers.back();
}

void FolderSavepointStore::add(std::uint32_t kind, Bytes payload) {
  PADDLE_CHECK(is_open_ && kind != kSavepointLastRecord &&
               payload.size() <= kSavepointRecordBytesMax);
  if (newest_->has_failed) return;
  backlog_ += payload.size();
  run([this, savepoint = newest_, kind, payload = std::move(payload)] {
    if (!savepoint->is_dropped && !savepoint->has_failed)
      settle(*savepoint, folder_.add(kind, payload));
    backlog_ -= payload.size();
  });
}

void FolderSavepointStore::end() {
  PADDLE_CHECK(is_open_);
  is_open_ = false;
  run([this, savepoint = newest_] {
    if (savepoint->has_failed) return;
    settle(*savepoint, folder_.end());
    if (savepoint->has_failed) return;
    if (std::exchange(is_failing_, false)) {
      log_info("{}: savepoints are written again; savepoint {} is complete", folder_.path(),
               savepoint->number);
    }
    publish();
  });
}

void FolderSavepointStore::drop_open() {
  if (!std::exchange(is_open_, false)) return;
  newest_->is_dropped = true;
  run([this] { folder_.drop(); });
}

std::vector<std::uint64_t> FolderSavepointStore::whole() const {
  const std::scoped_lock lock(mutex_);
  return whole_;
}

Status FolderSavepointStore::read(std::uint64_t number, const Use& use) {
  wait();
  Status read = folder_.read(number, use);
  publish();
  return read;
}

void FolderSavepointStore::forget_before(std::uint64_t number) {
  run([this, number] {
    const Status forgotten = folder_.forget_before(number);
    const bool failed_before = std::exchange(cannot_remove_, !forgotten);
    if (!forgotten && !failed_before) {
      log_warning("older savepoints cannot be removed: {}; they use space on the disk",
                  forgotten.error().message);
    }
    publish();
  });
}

Status FolderSavepointStore::forget_after(std::uint64_t number) {
  const bool goes_back = newest_ && newest_->number > number;
  if (goes_back) drop_open();
  wait();
  Status forgotten = folder_.forget_after(number);
  if (goes_back) newest_ = nullptr;
  publish();
  return forgotten;
}

void FolderSavepointStore::run(std::function<void()> work) {
  if (worker_ == nullptr) return work();
  worker_->run(std::move(work));
}

void FolderSavepointStore::wait() {
  if (worker_ != nullptr) worker_->wait();
}

void FolderSavepointStore::settle(Savepoint& savepoint, const Status& outcome) {
  if (outcome) return;
  savepoint.has_failed = true;
  if (std::exchange(is_failing_, true)) return;
  const auto newest = folder_.newest();
  log_warning(
      "savepoint {} was not saved: {}; training continues, and a lost pserver resumes from {}",
      savepoint.number, outcome.error().message,
      newest ? fmt::format("savepoint {}", *newest) : "a snapshot");
}

void FolderSavepointStore::publish() {
  const std::scoped_lock lock(mutex_);
  whole_ = folder_.numbers();
}

}  // namespace paddle::snapshot
