#include "engine/data/chunk_reader.h"

#include <poll.h>

#include <algorithm>

#include <fmt/format.h>

#include "base/text_file.h"
#include "engine/data/file_kind.h"

namespace paddle::data {
namespace {

constexpr std::byte kLineEnd{'\n'};

// Counts by find(), because the C library searches many bytes at a time.
std::uint64_t count_line_ends(std::string_view text) {
  std::uint64_t count = 0;
  for (std::size_t at = 0; (at = text.find('\n', at)) != text.npos; ++at) ++count;
  return count;
}

}  // namespace

Status ChunkReader::open() {
  if (source_) return {};
  PADDLE_TRY(source_, open_source(path_, options_));
  return read_head();
}

// Reads the beginning of the file, checks that it is text, and finds out how its lines end.
Status ChunkReader::read_head() {
  PADDLE_TRY_STATUS(fill(rest_, kChunkBytes));
  const std::string_view head = as_text(rest_);
  if (Status good = check_is_text(head); !good) {
    const bool is_file = options_.pipe_command.empty();
    Error error = std::move(good).error();
    const std::string_view packed = compression_of(head);
    if (is_file && path_ == kStandardInput && !packed.empty()) {
      error.message = fmt::format("it is compressed by {}", packed);
      error.hint = fmt::format("decompress it first: {} -dc FILE | paddle ... --data=-", packed);
    }
    return std::move(error).with(is_file ? path_ : path_ + ": output of pipe_command");
  }
  ends_in_cr_ = head.find('\n') == head.npos && head.find('\r') != head.npos;
  if (ends_in_cr_) std::ranges::replace(rest_, std::byte{'\r'}, kLineEnd);
  const std::size_t mark = head.size() - without_byte_order_mark(head).size();
  rest_.erase(rest_.begin(), rest_.begin() + static_cast<std::ptrdiff_t>(mark));
  end_.offset = mark;
  return {};
}

Status ChunkReader::go_to(const ChunkPlace& place) {
  if (place.offset < end_.offset) return Error{Errc::kData, path_ + ": the lines have changed"};
  PADDLE_TRY_STATUS(open());
  // open() moves end_ past a byte order mark, so a place at the beginning may be before end_.
  const std::uint64_t count = place.offset - std::min(place.offset, end_.offset);
  if (count <= rest_.size()) {
    rest_.erase(rest_.begin(), rest_.begin() + static_cast<std::ptrdiff_t>(count));
  } else {
    const std::uint64_t unread = count - rest_.size();
    rest_.clear();
    if (source_->skip(unread)) {
      read_ += unread;
    } else {
      PADDLE_TRY_STATUS(pass_over(unread));
    }
  }
  end_ = place;
  return {};
}

// Reads and drops `count` bytes, or fewer if the file ends earlier.
Status ChunkReader::pass_over(std::uint64_t count) {
  Bytes passing;
  const std::uint64_t until = read_ + count;
  while (read_ < until && !at_end_) {
    if (is_readable(options_.stop_fd)) return Error{Errc::kInterrupted, path_ + ": stopped"};
    passing.clear();
    PADDLE_TRY_STATUS(fill(passing, std::min<std::uint64_t>(until - read_, kChunkBytes)));
  }
  return {};
}

// Reads until `text` has `size` bytes or the file ends.
Status ChunkReader::fill(Bytes& text, std::size_t size) {
  const std::size_t before = text.size();
  std::size_t held = before;
  text.resize(size);
  while (held < size && !at_end_) {
    PADDLE_TRY(const std::size_t count, source_->read(std::span(text).subspan(held)));
    at_end_ = count == 0;
    held += count;
    read_ += count;
  }
  text.resize(held);
  if (ends_in_cr_) std::ranges::replace(std::span(text).subspan(before), std::byte{'\r'}, kLineEnd);
  return {};
}

// Shortens `text`, which begins with a line that is too long, to the beginning of that line. The
// bytes after the line go into rest_.
Status ChunkReader::skip_line(Bytes& text) {
  Bytes passing(text);
  text.resize(kChunkBytes);
  for (;;) {
    const auto end = std::find(passing.begin(), passing.end(), kLineEnd);
    if (end != passing.end()) {
      rest_.assign(end + 1, passing.end());
      return {};
    }
    if (at_end_) return {};
    passing.clear();
    PADDLE_TRY_STATUS(fill(passing, kChunkBytes));
  }
}

// Reads until `text` has whole lines, and returns their size; nothing if its first line is too
// long.
Result<std::optional<std::size_t>> ChunkReader::last_line_end(Bytes& text) {
  std::size_t searched = 0;  // bytes without a line end
  for (;;) {
    PADDLE_TRY_STATUS(fill(text, searched + kChunkBytes));
    const std::string_view added = as_text(text).substr(searched);
    const std::size_t first = added.find('\n');
    if (std::min(first, added.size()) + searched > kLineBytesMax) {
      return std::optional<std::size_t>();
    }
    if (at_end_) return std::optional(text.size());
    if (first != std::string_view::npos) return std::optional(searched + added.rfind('\n') + 1);
    searched = text.size();
  }
}

Result<bool> ChunkReader::next(Chunk& chunk) {
  PADDLE_TRY_STATUS(open());
  chunk.begin = end_;
  chunk.text.clear();
  chunk.text.swap(rest_);
  PADDLE_TRY(const auto size, last_line_end(chunk.text));
  // Unlike the other members of end_, `position` also depends on the sizes of the reads if the file
  // is decompressed or goes through a program.
  end_.position = std::max(end_.position, source_->position());
  chunk.is_too_long = !size.has_value();
  if (!size) {
    PADDLE_TRY_STATUS(skip_line(chunk.text));
    ++end_.line;
  } else {
    rest_.assign(chunk.text.begin() + static_cast<std::ptrdiff_t>(*size), chunk.text.end());
    chunk.text.resize(*size);
    if (chunk.text.empty()) return false;
    end_.line += count_line_ends(as_text(chunk.text));
    if (chunk.text.back() != kLineEnd) ++end_.line;
  }
  end_.offset = read_ - rest_.size();
  chunk.end = end_;
  return true;
}

}  // namespace paddle::data
