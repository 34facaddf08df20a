// Lookup of a block of ids, as many as go through each step together: the memory of all of them is
// fetched at once, within a cache's worth of lines.
#pragma once

#include <array>
#include <span>

#include "engine/table/row_index.h"

namespace paddle::table {

struct LookupBlock {
  static constexpr std::size_t kIds = 512;

  std::array<std::uint64_t, kIds> hashes;  // of absent ids at least, as homes
  std::array<std::uint64_t, kIds> homes;
  std::array<std::uint32_t, kIds> numbers;  // RowIndex::kNone: absent

  // At most kIds ids; the index is not empty.
  void find(const RowIndex& index, std::span<const std::uint64_t> ids);
  // The same from known numbers.
  void recall(const RowIndex& index, std::span<const std::uint64_t> ids,
              const std::uint32_t* known);
};

}  // namespace paddle::table
