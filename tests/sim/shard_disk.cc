#include "tests/sim/shard_disk.h"

#include <utility>

#include "tests/support/files/crash_states.h"

namespace paddle::sim {
namespace {

constexpr const char* kFolder = "/savepoints";
constexpr std::size_t kCrashStates = 3;  // of which one is taken; two are the extremes

}  // namespace

// The store of a shard, as its watch sees it.
class ShardDisk::WatchedStore final : public snapshot::SavepointStore {
 public:
  WatchedStore(ShardDisk& disk, std::unique_ptr<snapshot::FolderSavepointStore> store)
      : disk_(disk), store_(std::move(store)) {
    disk_.store_ = store_.get();
  }
  ~WatchedStore() override { disk_.store_ = nullptr; }

  void begin(std::uint64_t number, bool is_full) override {
    disk_.watch_.on_begin(disk_.shard_, number);
    store_->begin(number, is_full);
  }
  void add(std::uint32_t kind, Bytes payload) override { store_->add(kind, std::move(payload)); }
  void end() override { store_->end(); }
  std::uint64_t backlog() const override { return store_->backlog(); }
  bool has_failed() const override { return store_->has_failed(); }
  std::vector<std::uint64_t> whole() const override { return store_->whole(); }
  Status read(std::uint64_t number, const Use& use) override {
    Status outcome = store_->read(number, use);
    disk_.watch_.on_read(disk_.shard_, number, outcome);
    return outcome;
  }
  void forget_before(std::uint64_t number) override { store_->forget_before(number); }
  Status forget_after(std::uint64_t number) override { return store_->forget_after(number); }

 private:
  ShardDisk& disk_;
  std::unique_ptr<snapshot::FolderSavepointStore> store_;
};

ShardDisk::ShardDisk(std::uint32_t shard, std::uint64_t seed, bool is_deferred,
                     SavepointWatch& watch)
    : shard_(shard),
      is_deferred_(is_deferred),
      watch_(watch),
      rng_(hash_combine(seed, 0x6469736b + shard)) {}

pserver::OpenSavepoints ShardDisk::begin_process() {
  if (next_files_) files_ = std::move(next_files_);
  files_->set_full(is_full_);
  queue_ = std::make_unique<Queue>();
  return [this](std::uint64_t fingerprint) -> Result<std::unique_ptr<snapshot::SavepointStore>> {
    PADDLE_TRY(auto store,
               snapshot::FolderSavepointStore::open(
                   kFolder, fingerprint, is_deferred_ ? queue_.get() : nullptr, *files_));
    watch_.on_opened(shard_, store->whole());
    return std::unique_ptr<snapshot::SavepointStore>(
        std::make_unique<WatchedStore>(*this, std::move(store)));
  };
}

void ShardDisk::end_process(bool loses_power) {
  queue_->end();
  const std::size_t end = files_->operations().size();
  if (!loses_power) {
    next_files_ = std::make_unique<test::MemoryFiles>(files_->as_of(end));
    return;
  }
  const std::uint64_t taken = rng_.below(kCrashStates);
  std::uint64_t state = 0;
  test::visit_crash_states(*files_, end, kCrashStates, rng_.next(), [&](const test::Tree& tree) {
    if (state++ <= taken) next_files_ = std::make_unique<test::MemoryFiles>(tree);
  });
}

void ShardDisk::set_full(bool is_full) {
  is_full_ = is_full;
  files_->set_full(is_full);
}

void ShardDisk::work() {
  if (queue_ && queue_->size() > 0) queue_->work(rng_.below(queue_->size() + 1));
}

std::vector<std::uint64_t> ShardDisk::whole() const {
  return store_ != nullptr ? store_->whole() : std::vector<std::uint64_t>();
}

void ShardDisk::Queue::work(std::size_t count) {
  for (; count > 0 && !queue_.empty(); --count) {
    const std::function<void()> work = std::move(queue_.front());
    queue_.pop_front();
    work();
  }
}

}  // namespace paddle::sim
