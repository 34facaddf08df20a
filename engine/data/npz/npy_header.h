// Header of an array in numpy's npy format, versions 1 to 3.
#pragma once

#include <string>
#include <vector>

#include "engine/data/records/chunk.h"
#include "engine/data/source/byte_source.h"

namespace paddle::data {

struct NpyHeader {
  NumberType type;
  std::vector<std::uint64_t> shape;
  std::uint64_t bytes = 0;  // of the header itself
};

// Reads the header off the front of an array. kData: it is none, or longer than numpy reads; it
// describes no numbers (objects, which are Python programs, are refused like texts and records), or
// columns instead of rows. Errors do not name the array.
Result<NpyHeader> read_npy_header(ByteSource& source);

// Reads exactly the bytes. kData: the source ends before.
Status read_exactly(ByteSource& source, std::span<std::byte> into);

}  // namespace paddle::data
