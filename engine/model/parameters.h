// The values of a snapshot's parameters in memory, without what only training needs: dense
// parameters whole, tables by row. Any number of threads may read them.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <unordered_set>
#include <vector>

#include "base/result.h"
#include "engine/snapshot/reader.h"
#include "engine/table/sparse_table.h"

namespace paddle::inference {

// Counts of row look-ups, one for each id and batch, and of look-ups that found no row.
struct RowCounts {
  std::uint64_t asked = 0;
  std::uint64_t absent = 0;

  void add(const RowCounts& other) {
    asked += other.asked;
    absent += other.absent;
  }
};

class DistinctIds;

// kData: the snapshot lacks one of `specs`, by name, or has it in another shape.
Status check_shapes(const snapshot::SnapshotReader& snapshot,
                    const std::vector<wire::ParameterSpec>& specs);

class Parameters {
 public:
  // Loads the parameters in `specs`, by name. kData: the snapshot lacks one of them, has it in
  // another shape, or is damaged; kResource: no memory, or the rows need more than `bytes_max`.
  static Result<Parameters> load(const snapshot::SnapshotReader& snapshot,
                                 const std::vector<wire::ParameterSpec>& specs,
                                 std::uint64_t bytes_max = UINT64_MAX);

  // `parameter` and `table` are indices in `specs`.
  std::span<const float> dense(std::size_t parameter) const { return dense_[parameter]; }
  const table::SparseTable& table(std::size_t table) const { return *tables_[table]; }
  std::uint64_t rows(std::size_t table) const { return tables_[table]->rows(); }
  // Replaces `to` by the rows of the ids, as table::SparseTable::read_to_test() does: an absent row
  // is the mean of the initial values, unless its table draws values for unseen ids. If `distinct`
  // is not null, it counts the ids.
  RowCounts read_rows(std::size_t parameter, std::span<const std::uint64_t> ids,
                      std::vector<float>& to, DistinctIds* distinct = nullptr) const;

 private:
  friend class DistinctIds;
  std::vector<wire::ParameterSpec> specs_;
  std::vector<std::vector<float>> dense_;
  std::vector<std::unique_ptr<table::SparseTable>> tables_;
};

// Counts each id of all look-ups once. Any number of threads may add ids.
class DistinctIds {
 public:
  // The parameters must outlive this.
  explicit DistinctIds(const Parameters& parameters);

  // `numbers` are the numbers of the ids' rows, table::RowIndex::kNone for an id without a row.
  void add(std::size_t parameter, std::span<const std::uint64_t> ids,
           std::span<const std::uint32_t> numbers);

  std::uint64_t asked() const;
  std::uint64_t absent() const;
  // A sentence about the ids without a row: how many there are, why, and which values they have. ""
  // if there are none.
  std::string note() const;

 private:
  // The most ids without a row that are kept, to bound memory.
  static constexpr std::size_t kAbsentMax = 1U << 20U;

  struct Table {
    explicit Table(std::uint64_t rows) : found(rows / 64 + 1) {}
    std::vector<std::atomic<std::uint64_t>> found;  // a bit for each row
    std::unordered_set<std::uint64_t> absent;
  };
  const Parameters& parameters_;
  std::vector<std::unique_ptr<Table>> tables_;  // null for dense parameters
  mutable std::mutex mutex_;                    // guards the sets of absent ids
};

}  // namespace paddle::inference
