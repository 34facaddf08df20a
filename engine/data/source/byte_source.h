// Source of the bytes of a data file: plain, decompressed, or the output of a program.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"

namespace paddle::data {

class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // Reads at most into.size() > 0 bytes; 0 at the end. kData names the file; kInterrupted: stop_fd
  // became readable.
  virtual Result<std::size_t> read(std::span<std::byte> into) = 0;
};

struct SourceOptions {
  std::vector<std::string> pipe_command = {};  // an argument vector; empty: read the file itself
  std::string folder = ".";                    // working directory of the command
  Duration pipe_timeout = std::chrono::seconds(600);  // longest silence of the command
  int stop_fd = -1;  // an eventfd that ends waiting for the command, which requires one
};

// Decompresses .gz (RFC 1952, any number of members) and .zst (RFC 8878, any number of frames);
// other files are plain. A pipe_command gets the file itself as its standard input.
Result<std::unique_ptr<ByteSource>> open_source(const std::string& path,
                                                const SourceOptions& options);

}  // namespace paddle::data
