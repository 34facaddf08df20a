// Store of a shard's cuts in a folder of its node. A disk that is full or fails costs cuts, and
// never the job.
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

// Runs the work of any number of stores, all of which end before it, in the order that it came.
class CutWorker {
 public:
  virtual ~CutWorker() = default;
  // Returns at once. The stores' callers bound the queue by backlog().
  virtual void run(std::function<void()> work) = 0;
  // Returns when all that came before is done.
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
  // With `worker`, begin(), add(), end() and forget_before() return at once, and the others wait
  // until their work is done. Without, each call does its work itself. `fingerprint` is that of
  // CutHeader. kResource: the folder cannot be made or listed.
  static Result<std::unique_ptr<FolderCutStore>> open(const std::string& folder,
                                                      std::uint64_t fingerprint,
                                                      CutWorker* worker = nullptr,
                                                      FileSystem& files = kernel_file_system());
  // Waits until the cuts that have their end are written.
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
    std::optional<std::uint64_t> after;    // absent in a full one
    std::atomic<bool> is_dropped = false;  // by the shard, before its end
    std::atomic<bool> has_failed = false;
  };

  FolderCutStore(CutFolder folder, CutWorker* worker);
  // The cut that a delta may follow now.
  std::optional<std::uint64_t> followed() const;
  void drop_open();
  void run(std::function<void()> work);
  // Returns when all that was begun is done; until the next run(), folder_ is the caller's.
  void wait();
  // The outcome of work on `cut`; the first failure of a streak is logged.
  void settle(Cut& cut, const Status& outcome);
  void publish();

  CutWorker* worker_;
  std::shared_ptr<Cut> newest_;  // begun since the store was opened or went back
  bool is_open_ = false;         // newest_ has no end
  std::atomic<std::uint64_t> backlog_ = 0;
  mutable std::mutex mutex_;  // of whole_
  std::vector<std::uint64_t> whole_;

  // Of the worker.
  CutFolder folder_;
  bool is_failing_ = false;     // the last cut with an outcome
  bool cannot_remove_ = false;  // of the last forget_before()
};

}  // namespace paddle::snapshot
