#include "cli/log_reader.h"

namespace paddle::cli {

std::vector<std::string> LogReader::take_lines(std::string data) {
  partial_ += data;
  std::vector<std::string> lines;
  std::size_t begin = 0;
  for (auto end = partial_.find('\n'); end != std::string::npos; end = partial_.find('\n', begin)) {
    lines.push_back(partial_.substr(begin, end - begin));
    begin = end + 1;
  }
  partial_.erase(0, begin);
  if (partial_.size() > kLogLineBytesMax) lines.push_back(rest());
  return lines;
}

Result<std::vector<std::string>> LogReader::poll(remote::AgentClient& client) {
  PADDLE_TRY(remote::LogChunk chunk, client.read_log(path_, offset_, kLogChunkBytes));
  offset_ = chunk.next_offset;
  at_end_ = chunk.data.empty() || chunk.next_offset >= chunk.size;
  return take_lines(std::move(chunk.data));
}

Result<std::vector<std::string>> LogReader::tail(remote::AgentClient& client, std::size_t lines) {
  PADDLE_TRY(const remote::LogChunk probe, client.read_log(path_, 0, 1));
  offset_ = probe.size > kLogChunkBytes ? probe.size - kLogChunkBytes : 0;
  const bool cut = offset_ > 0;
  PADDLE_TRY(std::vector<std::string> found, poll(client));
  if (cut && !found.empty()) found.erase(found.begin());  // its beginning was not read
  if (found.size() > lines)
    found.erase(found.begin(), found.end() - static_cast<std::ptrdiff_t>(lines));
  return found;
}

}  // namespace paddle::cli
