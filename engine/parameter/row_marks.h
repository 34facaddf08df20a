// What a sparse row's 64-bit mark says besides its values, on the wire and in snapshots.
#pragma once

#include <cstdint>

namespace paddle::parameter {

struct RowMarks {
  std::uint32_t updates = 0;        // where the optimizer counts them
  std::uint16_t passes_unseen = 0;  // whole passes since a push named the row
  // Not 0: no row yet, an id that was seen this often and waits to be admitted. Its values are 0.
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
