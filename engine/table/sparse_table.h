// One sparse table on one shard: its rows, and the policies by which rows are created, age and are
// removed. Ids are processed by the batch, so that the memory of many rows is fetched at once. Only
// rows of these ids are ever loaded into the cache.
#pragma once

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/pool.h"
#include "base/result.h"
#include "engine/math/initial.h"
#include "engine/math/optimizer.h"
#include "engine/table/entry_policy.h"
#include "engine/table/lookup.h"
#include "engine/table/row_form.h"
#include "engine/table/row_notes.h"
#include "engine/table/row_store.h"
#include "engine/table/table_savepoint.h"
#include "proto/parameters.pb.h"

namespace paddle::table {

class SparseTable {
 public:
  // REQUIRES: the set is valid, and its parameter `index` is sparse. `parallel` helps with reads
  // and updates of many rows, and does not change their results; empty: the caller does all.
  // `preparer` outlives the table; if it is null, updates that create rows wait while the kernel
  // clears memory.
  SparseTable(const wire::ParameterSet& set, std::uint32_t index, Parallel parallel = {},
              MemoryPreparer* preparer = nullptr);

  std::uint64_t width() const { return rows_.layout().width; }
  std::uint32_t state_width() const {
    return static_cast<std::uint32_t>(rows_.layout().state_width);
  }
  std::uint64_t rows() const { return rows_.rows(); }
  // Floats that a push contains for each row: the gradient and its notes.
  std::uint64_t push_width() const { return width() + notes_.size(); }
  const parameter::RowNotes& notes() const { return notes_; }
  // Memory held, with pages counted whole; and the part of it that is values, optimizer state and
  // scores.
  std::uint64_t bytes() const {
    return rows_.bytes() + cache_.bytes() + entry_.bytes() + savepoint_.bytes();
  }
  std::uint64_t payload_bytes() const { return rows() * rows_.layout().payload_bytes(); }
  // Memory that counts against a port's limit: of rows, and of candidates, each of which takes an
  // entry of an index, too, and its sightings.
  std::uint64_t counted_bytes() const {
    return bytes_for(rows()) +
           entry_.candidates() * (RowStore::kIndexBytesPerRow + EntryPolicy::kBytesBesideIndex);
  }
  // Memory that `count` more rows may take.
  std::uint64_t bytes_for(std::uint64_t count) const { return count * rows_.layout().bytes(); }

  const EntryPolicy& entry() const { return entry_; }
  // Rows since the last call that were evicted, or removed at the end of a pass for their score.
  std::uint64_t take_evicted() { return rows_.take_evicted(); }
  std::uint64_t take_shrunk() { return std::exchange(shrunk_, 0); }

  // The rows' values. An absent row reads as its initial value, or as 0 under an entry policy, so
  // that an id which is not admitted has no influence. Reading creates nothing, so a test pass or
  // the order of readers changes nothing. REQUIRES: to.size() == ids.size() * width.
  void read(std::span<const std::uint64_t> ids, std::span<float> to) const {
    read_plane(0, ids, to, nullptr, initial_);
  }
  // Like read(), and caches the lookup for a push of these ids.
  void read_to_push(std::span<const std::uint64_t> ids, std::span<float> to);
  // The values that a test or a prediction uses. An absent row reads as in
  // optim::InitialRows::unseen(), or as 0 under an entry policy. `numbers`, unless it is null,
  // receives the number of each id's row, with RowIndex::kNone for absent ones.
  void read_to_test(std::span<const std::uint64_t> ids, std::span<float> to,
                    std::uint32_t* numbers = nullptr) const {
    read_plane(0, ids, to, numbers, unseen_);
  }
  // Like read_to_test(), but reads the rows' averages, which the optimizer must keep.
  void read_averages(std::span<const std::uint64_t> ids, std::span<float> to) const {
    PADDLE_CHECK(rule_.has_average());
    read_plane(state_width(), ids, to, nullptr, unseen_);
  }
  std::uint64_t count_absent(std::span<const std::uint64_t> ids) const;
  // Called before apply() or put() of up to `count` ids. kResource: too many rows, or no memory.
  Status reserve(std::uint64_t count);
  // How many more rows the table's bytes_max allows; unlimited for a table that evicts.
  std::uint64_t room() const { return rows_.room(); }
  // Updates each row once. The first update of an id creates its row, if the policy admits the id.
  // Does nothing to a static table. REQUIRES: ids are unique; gradients.size() == ids.size() *
  // push_width(). False if a value or its state is not finite afterwards.
  bool apply(float learning_rate, std::span<const std::uint64_t> ids,
             std::span<const float> gradients);

  // Called when all trainers have finished a pass: removes rows unseen for too long, decays scores,
  // and removes rows whose score is too low. Returns how many rows were unseen for too long.
  Result<std::uint64_t> end_pass();

  // Creates a row, or a candidate, from a snapshot. False if the id has a row already.
  bool put(const Row& row);
  // Appends rows in an order that depends on their ids alone: from position `from` on, at least
  // `wanted` if there are as many.
  void scan(std::uint64_t from, std::uint64_t wanted, std::vector<RowIndex::Entry>& entries) const {
    rows_.index().scan(from, wanted, entries);
  }
  Row row(const RowIndex::Entry& entry) const;
  // A candidate of entry().scan(), with a value and state of 0.
  Row candidate(const RowIndex::Entry& entry) const;
  // The form of the table's rows in savepoints, on the wire and in snapshots.
  RowForm form() const { return rows_.layout().form(); }
  // Null unless the job makes delta snapshots.
  RowChanges* changes() { return rows_.layout().tracks ? &rows_.changes() : nullptr; }

  // Savepoints: copies of the table as it is when a savepoint begins, made part by part while
  // updates go on. A savepoint is full, or contains what changed since the last savepoint that
  // ended.
  //
  // REQUIRES: the table has no rows.
  void track_savepoints();
  // Begins a savepoint of the table as it is. A savepoint that has not ended is dropped, and its
  // content belongs to the new one. A savepoint of a table that evicts is always full, and copied
  // at once.
  void begin_savepoint(bool is_full);
  // The next part, of about `bytes_max`. A part of rows that updates forced to be copied may have
  // up to 1 MiB, and a part without rows 8 MiB. Empty: this slice of the table contains nothing for
  // the savepoint. std::nullopt: all of the savepoint has been taken.
  std::optional<Bytes> take_savepoint(std::uint64_t bytes_max);
  // Ends a savepoint that has been taken and stored: the next one builds on it.
  void end_savepoint();
  bool is_making_savepoint() const { return !savepoint_.is_whole(rows_); }
  std::uint64_t savepoint_rows_left() const { return savepoint_.rows_left(rows_); }

  // Restores the parts of a full savepoint, in their order, and then of each savepoint that builds
  // on it. The table is then as if the last of them had just ended. kData: not a part of a
  // savepoint of this table; kResource as reserve().
  Status restore_savepoint(ByteSpan bytes);
  // Whether all rows of the last savepoint were restored. kData if not.
  Status check_restored() const;

 private:
  static constexpr std::size_t kBlocksTogether = 32;  // with parallel_
  static constexpr std::size_t kRun = 128;  // rows of a block updated at once, while in the cache

  // A block of ids that apply() processes.
  struct Block : LookupBlock {
    std::size_t new_count = 0;
    std::array<std::uint16_t, kIds> new_ids;  // positions of the ids whose rows the update creates
    const float* first_values = nullptr;      // values of these rows, if they are known
  };

  // `numbers`, unless null, receives the ids' row numbers.
  void read_plane(std::size_t plane, std::span<const std::uint64_t> ids, std::span<float> to,
                  std::uint32_t* numbers, const optim::InitialRows& absent) const;
  // Calls use(begin, count) for every block of `count` ids.
  template <class Use>
  void for_blocks(std::size_t count, const Use& use) const {
    const std::size_t blocks = (count + Block::kIds - 1) / Block::kIds;
    const auto use_one = [&](std::size_t number) {
      const std::size_t begin = number * Block::kIds;
      use(begin, std::min(Block::kIds, count - begin));
    };
    if (parallel_ && blocks > 1) return parallel_(blocks, use_one);
    for (std::size_t number = 0; number < blocks; ++number) use_one(number);
  }

  // apply() for the ids of a few blocks. `cached`, unless null, is where these ids begin in the
  // cache.
  bool apply_blocks(float learning_rate, std::span<const std::uint64_t> ids,
                    std::span<const float> gradients, LookupCache::Cursor* cached);
  void create_missing(std::span<const std::uint64_t> ids, const float* gradients, Block& block);
  // Marks the rows that a push contains.
  void mark_rows(std::span<const std::uint32_t> numbers, const float* gradients);
  // Sets the values and the state of the rows that a block creates.
  void start_rows(std::span<const std::uint64_t> ids, const Block& block) const;
  bool update(float learning_rate, std::span<const std::uint64_t> ids, const float* gradients,
              const Block& block);

  Result<std::uint64_t> expire();
  Status shrink();

  Status restore_start(const SavepointPart& part);
  Status restore_removed(const SavepointPart& part);
  void restore_candidates(const SavepointPart& part);
  void restore_rows(const SavepointPart& part);
  void restore_row(const std::byte* from);

  wire::ParameterSpec spec_;
  parameter::RowNotes notes_;
  optim::InitialRows initial_;
  optim::InitialRows unseen_;
  optim::UpdateRule rule_;
  Parallel parallel_;
  RowStore rows_;
  EntryPolicy entry_;
  LookupCache cache_;  // empty if absent ids may stay absent, or rows may be evicted
  TableSavepoint savepoint_;
  std::vector<Block> blocks_;  // used by apply()
  std::uint16_t pass_ = 0;
  std::uint64_t shrunk_ = 0;
  std::uint64_t restored_rows_ = 0;  // the table's rows when the last restored savepoint began
  // The value and state of a candidate, all zeros, if there may be any. They are never written, so
  // the kernel gives them no memory, however wide a row is.
  MemoryRegion zeros_{0};
};

}  // namespace paddle::table
