// Inline copy of a short row whose length is only known at run time: a call would take longer than
// the copy.
#pragma once

#include <cstddef>
#include <cstring>

namespace paddle {

inline void copy_row(const float* from, std::size_t width, float* to) {
  constexpr std::size_t kBlock = 8;
  std::size_t i = 0;
  for (; i + kBlock <= width; i += kBlock) std::memcpy(to + i, from + i, kBlock * sizeof(float));
  for (; i + 2 <= width; i += 2) std::memcpy(to + i, from + i, 2 * sizeof(float));
  if (i < width) to[i] = from[i];
}

}  // namespace paddle
