#include "cli/dashboard/log_tail.h"

#include <algorithm>

#include "cli/console/console.h"

namespace paddle::cli {
namespace {

constexpr std::uint32_t kReadBytes = 256U << 10U;
constexpr int kReadsMax = 8;  // at once, of a log that grows faster than it is read

bool is_continuation(char c) {
  return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U;
}

// The length of the text without a character that is cut at its end.
std::size_t whole_characters(std::string_view text) {
  std::size_t end = text.size();
  while (end > 0 && text.size() - end < 3 && is_continuation(text[end - 1])) --end;
  const bool is_cut = end > 0 && (static_cast<unsigned char>(text[end - 1]) & 0xC0U) == 0xC0U;
  return is_cut ? end - 1 : text.size();
}

}  // namespace

Status LogTail::read_new(remote::AgentClient& client) {
  if (!read_at_) {
    PADDLE_TRY(const remote::FilePart first, client.read_file(path_, 0, 1));
    begin_ = first.size > kLogWindowBytes ? first.size - kLogWindowBytes : 0;
    window_.clear();  // of a first read that failed on its way
  }
  for (int reads = 0; reads < kReadsMax; ++reads) {
    PADDLE_TRY(remote::FilePart part, client.read_file(path_, end(), kReadBytes));
    if (part.next_offset < part.data.size())
      return Error{Errc::kData, "the agent sent invalid log offsets", ""};
    const std::uint64_t start = part.next_offset - part.data.size();
    size_ = part.size;
    const bool is_new_file = part.size < end();
    if (is_new_file || (!part.data.empty() && start != end())) {  // rotated away, or a new file
      window_.clear();
      begin_ = is_new_file ? 0 : start;
      if (is_new_file) continue;
    }
    window_ += part.data;
    if (part.data.empty() || end() >= size_) break;
    if (size_ - end() > kLogWindowBytes) {  // nobody could read so fast
      window_.clear();
      begin_ = size_ - kLogWindowBytes;
    }
  }
  if (window_.size() > kLogWindowBytes) {
    const std::size_t surplus = window_.size() - kLogWindowBytes;
    window_.erase(0, surplus);
    begin_ += surplus;
  }
  return {};
}

LogPart LogTail::lines_of(std::string_view text, std::uint64_t offset, bool reaches_end,
                          bool is_over) const {
  const bool is_cut = text.size() > kLogPartBytesMax;
  text = text.substr(0, kLogPartBytesMax);
  std::size_t length = text.rfind('\n') + 1;  // 0: no line ends here
  if (reaches_end && is_over && !is_cut) length = text.size();
  if (length == 0 && text.size() == kLogPartBytesMax) length = whole_characters(text);
  return {offset, offset + length, size_, overwritten(text.substr(0, length))};
}

Result<LogPart> LogTail::part(remote::AgentClient& client, std::optional<std::uint64_t> offset,
                              bool is_over, TimePoint now) {
  if (!read_at_ || now - *read_at_ >= kLogReadEvery) {
    PADDLE_TRY_STATUS(read_new(client));
    read_at_ = now;
  }
  if (!offset) {
    std::size_t from = window_.size() - std::min(window_.size(), kLogFirstBytes);
    if (begin_ + from > 0) {  // the first line may have begun earlier
      const std::size_t newline = window_.find('\n', from);
      if (newline != std::string::npos) from = newline + 1;
    }
    return lines_of(std::string_view(window_).substr(from), begin_ + from, true, is_over);
  }
  if (*offset > end()) return LogPart{end(), end(), size_, ""};
  if (*offset >= begin_)
    return lines_of(std::string_view(window_).substr(*offset - begin_), *offset, true, is_over);
  PADDLE_TRY(const remote::FilePart part, client.read_file(path_, *offset, kReadBytes));
  if (part.next_offset < part.data.size())
    return Error{Errc::kData, "the agent sent invalid log offsets", ""};
  return lines_of(part.data, part.next_offset - part.data.size(), part.next_offset >= part.size,
                  is_over);
}

}  // namespace paddle::cli
