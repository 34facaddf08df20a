// Store of a shard's savepoints in a folder of its node. If the disk is full or fails, savepoints
// are lost, but the job goes on.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "engine/snapshot/savepoint_folder.h"
#include "engine/snapshot/savepoint_store.h"

namespace paddle::snapshot {

// Runs the work of any number of stores, in the order of arrival. The worker outlives the stores.
class SavepointWorker {
 public:
  virtual ~SavepointWorker() = default;
  // Returns at once. The callers of the stores limit the queue by backlog().
  virtual void run(std::function<void()> work) = 0;
  // Returns when all earlier work is done.
  virtual void wait() = 0;
};

class SavepointThread final : public SavepointWorker {
 public:
  SavepointThread();
  ~SavepointThread() override;
  SavepointThread(const SavepointThread&) = delete;
  SavepointThread& operator=(const SavepointThread&) = delete;

  void run(std::function<void()> work) override;
  void wait() override;

 private:
  void serve();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> queue_;
  bool is_over_ = false;
  std::thread thread_;
};

class FolderSavepointStore final : public SavepointStore {
 public:
  // With `worker`, begin(), add(), end() and forget_before() return at once, and the other
  // functions wait until that work is done. Without, each call does its own work. `fingerprint` is
  // SavepointHeader's. kResource: the folder cannot be created or listed.
  static Result<std::unique_ptr<FolderSavepointStore>> open(
      const std::string& folder, std::uint64_t fingerprint, SavepointWorker* worker = nullptr,
      FileSystem& files = kernel_file_system());
  // Waits until the savepoints that have ended are written.
  ~FolderSavepointStore() override;
  FolderSavepointStore(const FolderSavepointStore&) = delete;
  FolderSavepointStore& operator=(const FolderSavepointStore&) = delete;

  void begin(std::uint64_t number, bool is_full) override;
  void add(std::uint32_t kind, Bytes payload) override;
  void end() override;
  std::uint64_t backlog() const override { return backlog_; }
  bool has_failed() const override { return newest_ && newest_->has_failed; }

  std::vector<std::uint64_t> whole() const override;
  Status read(std::uint64_t number, const Use& use) override;
  void forget_before(std::uint64_t number) override;
  Status forget_after(std::uint64_t number) override;

 private:
  struct Savepoint {
    std::uint64_t number = 0;
    std::optional<std::uint64_t> after;    // absent in a full savepoint
    std::atomic<bool> is_dropped = false;  // by the shard, before its end
    std::atomic<bool> has_failed = false;
  };

  FolderSavepointStore(SavepointFolder folder, SavepointWorker* worker);
  // The savepoint that a delta may follow.
  std::optional<std::uint64_t> followed() const;
  void drop_open();
  void run(std::function<void()> work);
  // Returns when all work that was begun is done. Until the next run(), the caller may use folder_.
  void wait();
  // Records the outcome of work on `savepoint`. Logs the first of several failures in a row.
  void settle(Savepoint& savepoint, const Status& outcome);
  void publish();

  SavepointWorker* worker_;
  std::shared_ptr<Savepoint>
      newest_;            // the last savepoint begun since the store was opened or went back
  bool is_open_ = false;  // newest_ has not ended
  std::atomic<std::uint64_t> backlog_ = 0;
  mutable std::mutex mutex_;  // guards whole_
  std::vector<std::uint64_t> whole_;

  // The next fields belong to the worker.
  SavepointFolder folder_;
  bool is_failing_ = false;     // the last savepoint that has an outcome failed
  bool cannot_remove_ = false;  // the last forget_before() failed
};

}  // namespace paddle::snapshot
