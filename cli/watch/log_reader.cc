#include "cli/watch/log_reader.h"

#include <algorithm>

#include <fmt/format.h>

namespace paddle::cli {
namespace {

// Finds the time at which the byte at an offset was written; times ascend.
class TimeOfOffset {
 public:
  explicit TimeOfOffset(const std::vector<remote::LogTime>& times) : times_(times) {}

  // REQUIRES: offsets do not descend from call to call.
  std::int64_t at(std::uint64_t offset) {
    while (next_ < times_.size() && times_[next_].offset <= offset) ++next_;
    return next_ == 0 ? 0 : times_[next_ - 1].unix_ms;
  }

 private:
  const std::vector<remote::LogTime>& times_;
  std::size_t next_ = 0;
};

}  // namespace

void LogReader::take_partial(std::vector<LogLine>& lines) {
  if (auto line = rest()) lines.push_back(std::move(*line));
}

std::vector<LogLine> LogReader::take_lines(const remote::FilePart& chunk) {
  std::vector<LogLine> lines;
  const std::uint64_t start = chunk.next_offset - chunk.data.size();
  TimeOfOffset time(chunk.times);
  if (start != offset_) {
    take_partial(lines);
    if (start > offset_) {
      const std::string lost =
          fmt::format("[{} bytes of this log are gone: it was rotated]", start - offset_);
      lines.push_back({time.at(start), lost});
    }
  }
  for (std::size_t begin = 0; begin < chunk.data.size();) {
    const std::size_t end = std::min(chunk.data.find_first_of("\r\n", begin), chunk.data.size());
    if (end > begin) {
      add_text(std::string_view(chunk.data).substr(begin, end - begin), time.at(start + begin));
    }
    begin = end + 1;
    if (end == chunk.data.size()) break;
    if (chunk.data[end] == '\r') {
      is_returned_ = is_overwritten_ = true;
      continue;
    }
    if (partial_.text.empty()) partial_.unix_ms = time.at(start + end);
    if (!std::exchange(skip_line_, false)) lines.push_back(partial_);
    partial_ = {};
    is_returned_ = is_overwritten_ = false;
  }
  if (partial_.text.size() > kLogLineBytesMax) take_partial(lines);
  return lines;
}

void LogReader::add_text(std::string_view text, std::int64_t unix_ms) {
  if (std::exchange(is_returned_, false)) {
    partial_ = {};
    skip_line_ = false;  // a progress bar's state is a whole line
  }
  if (partial_.text.empty()) partial_.unix_ms = unix_ms;
  partial_.text += text;
}

const LogLine* LogReader::unfinished() const {
  return partial_.text.empty() || skip_line_ ? nullptr : &partial_;
}

Result<std::vector<LogLine>> LogReader::poll(remote::AgentClient& client) {
  PADDLE_TRY(const remote::FilePart chunk, client.read_file(path_, offset_, kLogChunkBytes));
  if (chunk.next_offset < chunk.data.size()) {
    return Error{Errc::kData, "the agent sent invalid log offsets", ""};
  }
  auto lines = take_lines(chunk);
  offset_ = chunk.next_offset;
  if (!round_end_) round_end_ = chunk.size;
  at_end_ = chunk.data.empty() || chunk.next_offset >= *round_end_;
  if (at_end_) round_end_.reset();
  return lines;
}

std::optional<LogLine> LogReader::rest() {
  LogLine line = std::exchange(partial_, {});
  is_returned_ = is_overwritten_ = false;
  if (line.text.empty() || skip_line_) return std::nullopt;
  return line;
}

Result<std::vector<LogLine>> LogReader::tail(remote::AgentClient& client, std::size_t lines,
                                             std::uint64_t bytes) {
  PADDLE_TRY(const remote::FilePart probe, client.read_file(path_, 0, 1));
  offset_ = probe.size > bytes ? probe.size - bytes : 0;
  // Rotation may have removed more than that; then starts at the first byte that is left.
  if (!probe.data.empty()) offset_ = std::max(offset_, probe.next_offset - 1);
  skip_line_ = offset_ > 0;
  PADDLE_TRY(std::vector<LogLine> found, poll(client));
  if (found.size() > lines)
    found.erase(found.begin(), found.end() - static_cast<std::ptrdiff_t>(lines));
  return found;
}

Result<std::vector<LogLine>> LogReader::since(remote::AgentClient& client, std::int64_t unix_ms) {
  PADDLE_TRY(const remote::FilePart probe, client.read_file(path_, 0, 1, unix_ms));
  offset_ = probe.next_offset - std::min<std::uint64_t>(probe.next_offset, probe.data.size());
  if (offset_ > 0) {
    PADDLE_TRY(const remote::FilePart before, client.read_file(path_, offset_ - 1, 1));
    skip_line_ = before.next_offset == offset_ && before.data != "\n";
  }
  return poll(client);
}

std::vector<MetricsLine> read_metrics(remote::AgentClient& client, const std::string& path,
                                      std::uint64_t bytes) {
  std::vector<MetricsLine> metrics;
  LogReader reader(path);
  std::uint64_t taken = 0;  // a node may never reach the end of the file
  for (auto lines = reader.tail(client, SIZE_MAX, bytes); lines; lines = reader.poll(client)) {
    for (const LogLine& line : *lines) {
      if (auto parsed = parse_metrics(line.text)) metrics.push_back(*std::move(parsed));
      taken += line.text.size() + 1;
    }
    if (reader.at_end() || taken > bytes) break;
  }
  return metrics;
}

}  // namespace paddle::cli
