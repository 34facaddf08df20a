// The values of a snapshot's parameters in memory, without what only training needs: dense ones
// whole, tables by row. Any number of threads may read them.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "engine/snapshot/reader.h"
#include "engine/table/sparse_table.h"

namespace paddle::inference {

// Look-ups of rows, one for each id and batch, and how many of them found none.
struct RowCounts {
  std::uint64_t asked = 0;
  std::uint64_t absent = 0;

  void add(const RowCounts& other) {
    asked += other.asked;
    absent += other.absent;
  }
};

// kData: the snapshot has one of `specs`, by name, in no or another shape.
Status check_shapes(const snapshot::SnapshotReader& snapshot,
                    const std::vector<wire::ParameterSpec>& specs);

class Parameters {
 public:
  // Loads those of `specs`, by name. kData: the snapshot has one of them in no or another shape, or
  // is damaged; kResource: no memory.
  static Result<Parameters> load(const snapshot::SnapshotReader& snapshot,
                                 const std::vector<wire::ParameterSpec>& specs);

  // By index in `specs`.
  std::span<const float> dense(std::size_t parameter) const { return dense_[parameter]; }
  // Replaces `to` by the rows of the ids. An absent one reads as in training: as its initial value,
  // or as 0 where an entry policy has not admitted it.
  RowCounts read_rows(std::size_t parameter, std::span<const std::uint64_t> ids,
                      std::vector<float>& to) const;

 private:
  std::vector<std::vector<float>> dense_;
  std::vector<std::unique_ptr<table::SparseTable>> tables_;
};

}  // namespace paddle::inference
