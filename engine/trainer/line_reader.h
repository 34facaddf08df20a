// Lines of text files in order, remembering where each came from.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/fd.h"
#include "engine/base/result.h"

namespace paddle::trainer {

constexpr std::size_t kLineBytesMax = 16U << 20U;

class LineReader {
 public:
  explicit LineReader(std::vector<std::string> files) : files_(std::move(files)) {}

  // The next line without its end, valid until the next call; nothing after the last file. kData
  // names the file.
  Result<std::optional<std::string_view>> next();
  // "data/train.txt-00001:17", of the line returned last.
  std::string place() const;

 private:
  Status fill();

  std::vector<std::string> files_;
  std::size_t file_ = 0;
  std::size_t line_ = 0;
  UniqueFd fd_;
  bool at_end_ = false;  // of the current file
  std::string buffer_;
  std::size_t begin_ = 0;
};

}  // namespace paddle::trainer
