// The disk of one simulated port, which keeps its savepoints while its pserver is restarted.
#pragma once

#include <deque>

#include "base/rng.h"
#include "engine/pserver/options.h"
#include "engine/snapshot/folder_savepoint_store.h"
#include "tests/support/files/memory_files.h"

namespace paddle::sim {

// Hears what a port does with its savepoints.
class SavepointWatch {
 public:
  virtual ~SavepointWatch() = default;
  virtual void on_opened(std::uint32_t shard, const std::vector<std::uint64_t>& whole) = 0;
  virtual void on_begin(std::uint32_t shard, std::uint64_t savepoint) = 0;
  virtual void on_read(std::uint32_t shard, std::uint64_t savepoint, const Status& outcome) = 0;
};

class ShardDisk {
 public:
  ShardDisk(std::uint32_t shard, std::uint64_t seed, bool is_deferred, SavepointWatch& watch);

  // For an incarnation of the port, which has ended before the next one begins.
  pserver::OpenSavepoints begin_process();
  // Work that is deferred is lost, and with the power also what was not synced.
  void end_process(bool loses_power);
  void set_full(bool is_full);
  // Does some of the work that is deferred.
  void work();
  // Whole savepoints, as this incarnation knows them; none before the port has opened them.
  std::vector<std::uint64_t> whole() const;

 private:
  // Work waits here until work(), and is lost with the incarnation.
  class Queue final : public snapshot::SavepointWorker {
   public:
    void run(std::function<void()> work) override {
      if (!is_over_) queue_.push_back(std::move(work));
    }
    void wait() override { work(queue_.size()); }
    void work(std::size_t count);
    void end() {
      is_over_ = true;
      queue_.clear();
    }
    std::size_t size() const { return queue_.size(); }

   private:
    std::deque<std::function<void()>> queue_;
    bool is_over_ = false;
  };
  class WatchedStore;

  std::uint32_t shard_;
  bool is_deferred_;
  SavepointWatch& watch_;
  Rng rng_;
  bool is_full_ = false;
  std::unique_ptr<test::MemoryFiles> files_ = std::make_unique<test::MemoryFiles>();
  std::unique_ptr<test::MemoryFiles> next_files_;  // as the incarnation that has ended leaves them
  std::unique_ptr<Queue> queue_;
  const snapshot::SavepointStore* store_ = nullptr;  // of the port's shard
};

}  // namespace paddle::sim
