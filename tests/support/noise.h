// Bytes that nothing can compress, the same for a seed; the last of a size that is no multiple of 8
// are zero.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>

#include "base/rng.h"

namespace paddle::test {

inline std::string noise(std::size_t size, std::uint64_t seed) {
  Rng random(seed);
  std::string text(size, '\0');
  for (std::size_t i = 0; i + 8 <= size; i += 8) {
    const std::uint64_t value = random.next();
    std::memcpy(text.data() + i, &value, sizeof value);
  }
  return text;
}

}  // namespace paddle::test
