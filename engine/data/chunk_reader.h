// A data file in pieces of whole lines. Where one piece ends and the next begins depends on the
// bytes alone, not on how they arrive.
#pragma once

#include <optional>

#include "base/bytes.h"
#include "engine/data/source/byte_source.h"

namespace paddle::data {

constexpr std::size_t kLineBytesMax = 16U << 20U;
constexpr std::size_t kChunkBytes = 256U << 10U;  // a chunk is longer when one line is

struct Chunk {
  std::uint32_t file = 0;        // its number, for whoever knows its name
  std::uint64_t first_line = 0;  // counted from 0
  Bytes text;                    // each line with its end; the file's last one may have none
  bool is_too_long = false;      // the text is the beginning of one line above kLineBytesMax
};

class ChunkReader {
 public:
  ChunkReader(std::string path, std::uint32_t file, SourceOptions options)
      : path_(std::move(path)), file_(file), options_(std::move(options)) {}

  // Replaces `chunk`, keeping its memory; false at the end of the file. Errors are open_source's.
  Result<bool> next(Chunk& chunk);

 private:
  Result<std::optional<std::size_t>> last_line_end(Bytes& text);
  Status fill(Bytes& text, std::size_t size);
  Status skip_line(Bytes& text);

  std::string path_;
  std::uint32_t file_;
  SourceOptions options_;
  std::unique_ptr<ByteSource> source_;
  bool at_end_ = false;
  std::uint64_t line_ = 0;
  Bytes rest_;  // read, and after the last line of the last chunk
};

// The lines of a text, without their ends ("\n" or "\r\n").
class Lines {
 public:
  explicit Lines(std::string_view text, std::uint64_t first_line = 0)
      : rest_(text), number_(first_line - 1) {}

  std::optional<std::string_view> next() {
    if (rest_.empty()) return {};
    const std::size_t end = std::min(rest_.find('\n'), rest_.size());
    std::string_view line = rest_.substr(0, end);
    rest_.remove_prefix(std::min(end + 1, rest_.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    ++number_;
    return line;
  }
  std::uint64_t number() const { return number_; }  // of the line returned last, counted from 0

 private:
  std::string_view rest_;
  std::uint64_t number_;
};

}  // namespace paddle::data
