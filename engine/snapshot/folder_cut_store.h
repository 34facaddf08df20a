// Store of a shard's cuts in a folder of its node. If the disk is full or fails, cuts are lost, but
// the job goes on.
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

#include "engine/snapshot/cut_folder.h"
#include "engine/snapshot/cut_store.h"

namespace paddle::snapshot {

// Runs the work of any number of stores, in the order of arrival. The worker outlives the stores.
class CutWorker {
 public:
  virtual ~CutWorker() = default;
  // Returns at once. The callers of the stores limit the queue by backlog().
  virtual void run(std::function<void()> work) = 0;
  // Returns when all earlier work is done.
  virtual void wait() = 0;
};

class CutThread final : public CutWorker {
 public:
  CutThread();
  ~CutThread() override;
  CutThread(const CutThread&) = delete;
  CutThread& operator=(const CutThread&) = delete;

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

class FolderCutStore final : public CutStore {
 public:
  // With `worker`, begin(), add(), end() and forget_before() return at once, and the other
  // functions wait until that work is done. Without, each call does its own work. `fingerprint` is
  // CutHeader's. kResource: the folder cannot be created or listed.
  static Result<std::unique_ptr<FolderCutStore>> open(const std::string& folder,
                                                      std::uint64_t fingerprint,
                                                      CutWorker* worker = nullptr,
                                                      FileSystem& files = kernel_file_system());
  // Waits until the cuts that have ended are written.
  ~FolderCutStore() override;
  FolderCutStore(const FolderCutStore&) = delete;
  FolderCutStore& operator=(const FolderCutStore&) = delete;

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
  struct Cut {
    std::uint64_t number = 0;
    std::optional<std::uint64_t> after;    // absent in a full cut
    std::atomic<bool> is_dropped = false;  // by the shard, before its end
    std::atomic<bool> has_failed = false;
  };

  FolderCutStore(CutFolder folder, CutWorker* worker);
  // The cut that a delta may follow.
  std::optional<std::uint64_t> followed() const;
  void drop_open();
  void run(std::function<void()> work);
  // Returns when all work that was begun is done. Until the next run(), the caller may use folder_.
  void wait();
  // Records the outcome of work on `cut`. Logs the first of several failures in a row.
  void settle(Cut& cut, const Status& outcome);
  void publish();

  CutWorker* worker_;
  std::shared_ptr<Cut> newest_;  // the last cut begun since the store was opened or went back
  bool is_open_ = false;         // newest_ has not ended
  std::atomic<std::uint64_t> backlog_ = 0;
  mutable std::mutex mutex_;  // guards whole_
  std::vector<std::uint64_t> whole_;

  // The next fields belong to the worker.
  CutFolder folder_;
  bool is_failing_ = false;     // the last cut that has an outcome failed
  bool cannot_remove_ = false;  // the last forget_before() failed
};

}  // namespace paddle::snapshot
