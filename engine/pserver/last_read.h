// What a read found, for the push that comes after it: that names the same ids, and nearly always
// no row has come or gone in between.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace paddle::pserver {

struct LastRead {
  // What is left of it while a push goes through.
  struct Rest {
    const std::uint32_t* numbers;
    const float* first_values;
  };

  // Of a batch's rows; what is read in larger pieces is not worth the memory.
  static constexpr std::size_t kFloatsMax = std::size_t{1} << 18U;

  bool is_of(std::uint64_t version, std::span<const std::uint64_t> wanted) const {
    return version == index_version && std::ranges::equal(wanted, ids);
  }

  Rest rest() const { return {numbers.data(), first_values.data()}; }

  std::uint64_t index_version = 0;
  std::vector<std::uint64_t> ids;
  std::vector<std::uint32_t> numbers;  // RowIndex::kNone: absent
  std::vector<float> first_values;     // of those that were absent
};

}  // namespace paddle::pserver
