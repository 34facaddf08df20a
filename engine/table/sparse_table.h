// One sparse table's rows on one shard: an index of ids over an arena of rows, value and optimizer
// state side by side. Ids come by the batch, so that the memory of many rows is fetched at once.
// Only rows that are named are ever touched.
#pragma once

#include <algorithm>
#include <array>
#include <span>
#include <utility>
#include <vector>

#include "base/pool.h"
#include "base/result.h"
#include "engine/optim/initial.h"
#include "engine/optim/optimizer.h"
#include "engine/parameter/row_marks.h"
#include "engine/parameter/row_notes.h"
#include "engine/table/entry_policy.h"
#include "engine/table/last_read.h"
#include "engine/table/recency_list.h"
#include "engine/table/row_changes.h"
#include "engine/table/row_index.h"
#include "proto/parameters.pb.h"

namespace paddle::table {

class SparseTable {
 public:
  static constexpr std::uint64_t kRowsMax = (1ULL << 32U) - 2;

  // The set is valid and parameter `index` in it is sparse. `parallel` helps with reads and updates
  // of many rows, and leaves no trace in them; empty: the caller does all. `preparer` outlives the
  // table; without one, updates that create rows wait while the kernel clears memory.
  SparseTable(const wire::ParameterSet& set, std::uint32_t index, Parallel parallel = {},
              MemoryPreparer* preparer = nullptr);

  std::uint64_t width() const { return width_; }
  std::uint32_t state_width() const { return state_width_; }
  std::uint64_t rows() const { return index_.size(); }
  // Floats that a push has for each row: the gradient and its notes.
  std::uint64_t push_width() const { return width_ + notes_.size(); }
  const parameter::RowNotes& notes() const { return notes_; }
  // Memory held, pages counted whole, and the part of it that is values, optimizer state and
  // scores.
  std::uint64_t bytes() const;
  std::uint64_t payload_bytes() const { return rows() * payload_bytes_per_row_; }
  // What counts against a port's limit: rows, and candidates, which take as much of an index and
  // their sightings.
  std::uint64_t counted_bytes() const {
    return bytes_for(rows()) +
           entry_.candidates() * (kRowOverheadBytes + EntryPolicy::kBytesBesideIndex);
  }
  // Memory that `count` more rows may take.
  std::uint64_t bytes_for(std::uint64_t count) const;

  const EntryPolicy& entry() const { return entry_; }
  // Rows since the last call: evicted, and gone at the end of a pass for their score.
  std::uint64_t take_evicted() { return std::exchange(evicted_, 0); }
  std::uint64_t take_shrunk() { return std::exchange(shrunk_, 0); }

  // The rows' values. An absent row reads as what it will be initialised to, or as 0 under an entry
  // policy: what is not admitted takes no part. Reading creates nothing, so that a test
  // pass or the order of readers leaves no trace. to.size() == ids.size() * width.
  void read(std::span<const std::uint64_t> ids, std::span<float> to) const {
    read_plane(0, ids, to, nullptr);
  }
  // The same, noting what is found: a push of these ids looks for nothing that stayed in place.
  void read_to_push(std::span<const std::uint64_t> ids, std::span<float> to);
  // The rows' averages, which the optimizer must keep.
  void read_averages(std::span<const std::uint64_t> ids, std::span<float> to) const {
    PADDLE_CHECK(rule_.has_average());
    read_plane(state_width_, ids, to, nullptr);
  }
  std::uint64_t count_absent(std::span<const std::uint64_t> ids) const;
  // Before apply() or put() of up to `count` ids. kResource: too many rows, or no memory.
  Status reserve(std::uint64_t count);
  // How many more rows the table's bytes_max allows; a table that evicts has room without end.
  std::uint64_t room() const;
  // One update of each row; the first one creates it, where the policy admits the id. Does nothing
  // to a static table. ids are unique; gradients.size() == ids.size() * push_width().
  void apply(float learning_rate, std::span<const std::uint64_t> ids,
             std::span<const float> gradients);

  struct Row {
    std::uint64_t id = 0;
    parameter::RowMarks marks;
    std::span<const float> value;
    std::span<const float> state;  // state_width * width
    parameter::RowScore score = {};
  };
  // Replaces or creates a row, or a candidate, from a snapshot.
  void put(const Row& row);
  // All trainers have finished a pass: rows unseen for too long go, scores decay, and rows whose
  // score is too low go. Returns how many went unseen.
  Result<std::uint64_t> end_pass();
  // The rows in an order that depends on their ids alone: from position `from` on, at least
  // `wanted` where there are as many.
  void scan(std::uint64_t from, std::uint64_t wanted, std::vector<RowIndex::Entry>& entries) const {
    index_.scan(from, wanted, entries);
  }
  Row row(const RowIndex::Entry& entry) const;
  bool shrinks() const { return spec_.table().has_shrink(); }
  // Of a row in PutRows and ExportedRows.
  std::uint64_t exported_bytes_per_row() const {
    return 2 * sizeof(std::uint64_t) + row_floats_ * sizeof(float);
  }
  // Only of a table of a job with delta snapshots.
  RowChanges* changes() { return tracks_ ? &changes_ : nullptr; }
  // Of an entry of entry().scan(): values and state of 0.
  Row candidate(const RowIndex::Entry& entry) const;

 private:
  static constexpr std::uint64_t kRowOverheadBytes = 16;
  static constexpr std::size_t kLineFloats = 16;
  static constexpr std::size_t kLinesTouchedMax = 8;  // of a row; the hardware follows from there
  static constexpr std::size_t kBlock =
      512;  // ids that go through the steps together, in a cache's worth of lines
  static constexpr std::size_t kBlocksTogether = 32;  // with help
  static constexpr std::size_t kRun = 128;  // rows of a block updated at once, while they are near
  struct Block {
    std::array<std::uint64_t, kBlock> hashes;
    std::array<std::uint64_t, kBlock> homes;
    std::array<std::uint32_t, kBlock> numbers;
    std::array<std::uint16_t, kBlock> far;  // those that do not lie in their home
    std::size_t new_count = 0;
    std::array<std::uint16_t, kBlock> new_ids;  // whose rows the update creates
    const float* first_values = nullptr;        // of those, where they are known
  };

  bool expires() const { return spec_.table().expire_passes() > 0; }
  bool evicts() const { return spec_.table().bytes_max() > 0 && spec_.table().evict(); }
  float* row_data(std::uint32_t number) const {
    return reinterpret_cast<float*>(arena_.data()) + number * row_floats_;
  }
  std::uint32_t* update_counts() const {
    return reinterpret_cast<std::uint32_t*>(update_counts_.data());
  }
  // Plane 0 is the values, 1..state_width the state. `numbers`, unless null, are of the ids.
  void read_plane(std::size_t plane, std::span<const std::uint64_t> ids, std::span<float> to,
                  std::uint32_t* numbers) const;
  // Without help.
  void read_part(std::size_t plane, std::span<const std::uint64_t> ids, float* to,
                 std::uint32_t* numbers) const;
  void fill_absent(std::span<const optim::InitialRows::Row> absent) const;
  // Those that have a number.
  void touch_rows(std::span<const std::uint32_t> numbers) const;
  void find(std::span<const std::uint64_t> ids, Block& block) const;
  // The same from their numbers when they were read.
  void recall(const std::uint32_t* numbers, std::span<const std::uint64_t> ids, Block& block) const;
  // use(begin, count) for every block of `count` ids.
  template <class Use>
  void for_blocks(std::size_t count, const Use& use) const;
  // The values and the state of the rows that a block creates.
  void start_rows(std::span<const std::uint64_t> ids, const Block& block) const;
  // The steps of apply() with a few blocks, whose ids `recalled` begins with, unless it is null.
  void apply_blocks(float learning_rate, std::span<const std::uint64_t> ids,
                    std::span<const float> gradients, LastRead::Rest* recalled);
  void create_missing(std::span<const std::uint64_t> ids, const float* gradients, Block& block);
  void update(float learning_rate, std::span<const std::uint64_t> ids, const float* gradients,
              const Block& block);
  // A number for the id; its value and state are the caller's to write.
  std::uint32_t create(std::uint64_t home, std::uint64_t hash, std::uint64_t id);
  std::uint32_t evict();
  Result<std::uint64_t> expire();
  Status shrink();
  Status remove(std::span<const std::uint64_t> ids);
  void move_row(std::uint32_t from, std::uint32_t to);
  parameter::RowScore* score(std::uint32_t number) const {
    return reinterpret_cast<parameter::RowScore*>(row_data(number) + width_ * (1 + state_width_));
  }
  std::uint16_t* seen() const { return reinterpret_cast<std::uint16_t*>(seen_.data()); }

  wire::ParameterSpec spec_;
  parameter::RowNotes notes_;
  bool tracks_;
  optim::InitialRows initial_;
  optim::UpdateRule rule_;
  std::uint64_t width_;
  std::uint32_t state_width_;
  std::uint64_t row_floats_;  // value, state and score
  bool crosses_lines_;        // whether a row may end on one line more than its size takes
  bool counts_updates_;
  std::uint64_t payload_bytes_per_row_;
  Parallel parallel_;
  std::vector<Block> blocks_;  // of apply()
  LastRead last_read_;         // empty where absent ids may stay so, or rows may make place
  RowIndex index_;
  MemoryRegion arena_;          // by row number, which are 0 .. rows() - 1
  MemoryRegion update_counts_;  // uint32 by row number, where the optimizer asks for them
  MemoryRegion seen_;           // uint16, the last pass that named the row, where rows expire
  EntryPolicy entry_;
  RecencyList recency_;  // where rows are evicted
  RowChanges changes_;   // where snapshots may be deltas
  std::uint64_t rows_max_;
  std::uint16_t pass_ = 0;
  std::uint64_t evicted_ = 0;
  std::uint64_t shrunk_ = 0;
  std::vector<float> zeros_;  // a row's value and state
};

template <class Use>
void SparseTable::for_blocks(std::size_t count, const Use& use) const {
  const std::size_t blocks = (count + kBlock - 1) / kBlock;
  const auto use_one = [&](std::size_t number) {
    const std::size_t begin = number * kBlock;
    use(begin, std::min(kBlock, count - begin));
  };
  if (parallel_ && blocks > 1) return parallel_(blocks, use_one);
  for (std::size_t number = 0; number < blocks; ++number) use_one(number);
}

}  // namespace paddle::table
