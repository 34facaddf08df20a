// Files with holes: ranges that read as zeros and take no disk space.
#pragma once

#include "base/bytes.h"

namespace paddle {

bool is_all_zero(ByteSpan bytes);

// Makes the range read as zeros, without disk space where the file system supports holes. Extends
// the file to the end of the range if it is shorter. Returns false with errno set on an error.
bool make_hole(int fd, std::uint64_t offset, std::uint64_t bytes);
// Writes at an offset, with holes in place of blocks of zeros. Returns false with errno set on an
// error.
bool write_with_holes(int fd, ByteSpan bytes, std::uint64_t offset);

// The first range within [offset, end) that contains data. Both members are `end` if there is none.
// The range is all of [offset, end) if the file system does not support holes.
struct DataRange {
  std::uint64_t begin = 0, end = 0;
};
DataRange next_data(int fd, std::uint64_t offset, std::uint64_t end);

}  // namespace paddle
