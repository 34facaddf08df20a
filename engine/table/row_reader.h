// Copies of rows by id, looked up in a pipeline so that the memory of many ids is fetched at once.
#pragma once

#include <span>

#include "engine/optim/initial.h"
#include "engine/table/row_store.h"

namespace paddle::table {

class RowReader {
 public:
  // An absent row reads as its initial value, or as 0 where `initial` is null.
  RowReader(const RowStore& rows, const optim::InitialRows* initial)
      : rows_(rows), initial_(initial) {}

  // Plane 0 is the values, 1..state_width the state. Writes the ids' row numbers to `numbers`,
  // unless it is null, with RowIndex::kNone for absent ones.
  void read(std::size_t plane, std::span<const std::uint64_t> ids, float* to,
            std::uint32_t* numbers) const;

 private:
  class AbsentRows;
  void read_some(std::size_t plane, std::span<const std::uint64_t> ids, float* to,
                 std::uint32_t* numbers) const;

  const RowStore& rows_;
  const optim::InitialRows* initial_;
};

}  // namespace paddle::table
