// The bytes of a data file: as they are, decompressed, or what a program makes of them.
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
  // At most into.size() bytes, which is not 0; nothing at the end. Errors name the file and are
  // kData; kInterrupted when stop_fd became readable.
  virtual Result<std::size_t> read(std::span<std::byte> into) = 0;
};

struct SourceOptions {
  std::vector<std::string> pipe_command = {};  // an argument vector; empty: the file is read itself
  std::string folder = ".";                    // where the command runs
  Duration pipe_timeout = std::chrono::seconds(600);  // without a byte from the command
  int stop_fd = -1;  // an eventfd that ends waiting for the command; -1 is an error with a command
};

// By the file's ending: .gz (RFC 1952, any number of members), .zst (RFC 8878, any number of
// frames), else as it is. A pipe_command gets the file itself as its standard input.
Result<std::unique_ptr<ByteSource>> open_source(const std::string& path,
                                                const SourceOptions& options);

}  // namespace paddle::data
