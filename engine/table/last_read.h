// What a read found, for the push that comes after it: that names the same ids, and nearly always
// no row has come or gone in between.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace paddle::table {

struct LastRead {
  // What is left of it while a push goes through.
  struct Rest {
    const std::uint32_t* numbers;
    const float* first_values;  // null: not known
  };

  // A batch's ids, 384 KiB with their numbers; more would weigh too much a row of a small table. It
  // is held from a read to the push after it.
  static constexpr std::size_t kIdsMax = std::size_t{1} << 15U;
  static constexpr std::size_t kFirstValuesMax = std::size_t{1} << 16U;  // floats

  bool is_of(std::uint64_t version, std::span<const std::uint64_t> wanted) const {
    return version == index_version && std::ranges::equal(wanted, ids);
  }

  Rest rest() const {
    return {numbers.data(), first_values.empty() ? nullptr : first_values.data()};
  }
  std::uint64_t bytes() const {  // of memory
    return ids.capacity() * sizeof(std::uint64_t) + numbers.capacity() * sizeof(std::uint32_t) +
           first_values.capacity() * sizeof(float);
  }

  std::uint64_t index_version = 0;
  std::vector<std::uint64_t> ids;
  std::vector<std::uint32_t> numbers;  // RowIndex::kNone: absent
  std::vector<float> first_values;     // of those that were absent, unless they are too many
};

}  // namespace paddle::table
