// Files with holes: places that read as zeros and take no room on disk.
#pragma once

#include "base/bytes.h"

namespace paddle {

bool is_all_zero(ByteSpan bytes);

// Makes the range read as zeros and take no room, and the file as long as that at least. False with
// errno set.
bool make_hole(int fd, std::uint64_t offset, std::uint64_t bytes);
// Writes at an offset, with holes in place of blocks of zeros. False with errno set.
bool write_with_holes(int fd, ByteSpan bytes, std::uint64_t offset);

// The first range with data from `offset` on, below `end`; both are `end` when the rest is a hole.
// All of it where the file system knows no holes.
struct DataRange {
  std::uint64_t begin = 0, end = 0;
};
DataRange next_data(int fd, std::uint64_t offset, std::uint64_t end);

}  // namespace paddle
