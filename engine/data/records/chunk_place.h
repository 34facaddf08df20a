// Place between two chunks of a data file.
#pragma once

#include <cstdint>

namespace paddle::data {

struct ChunkPlace {
  std::uint64_t file = 0;      // its number in share.files
  std::uint64_t offset = 0;    // in the lines: the decompressed bytes, or those of the pipe_command
  std::uint64_t line = 0;      // number of lines before it
  std::uint64_t position = 0;  // bytes of the file itself that were read by then

  bool operator==(const ChunkPlace&) const = default;
};

}  // namespace paddle::data
