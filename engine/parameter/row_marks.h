// Counters of a sparse row, packed into a 64-bit mark on the wire and in snapshots.
#pragma once

#include <cstdint>

namespace paddle::parameter {

struct RowMarks {
  std::uint32_t updates = 0;        // 0 unless the optimizer counts them
  std::uint16_t passes_unseen = 0;  // whole passes since the last push that named the row
  // Above 0: the id was seen this often but has no row yet; its values are 0.
  std::uint16_t sightings = 0;

  static RowMarks unpack(std::uint64_t bits) {
    return {static_cast<std::uint32_t>(bits), static_cast<std::uint16_t>(bits >> 32U),
            static_cast<std::uint16_t>(bits >> 48U)};
  }
  std::uint64_t pack() const {
    return updates | static_cast<std::uint64_t>(passes_unseen) << 32U |
           static_cast<std::uint64_t>(sightings) << 48U;
  }
};

}  // namespace paddle::parameter
