#include "engine/net/striped_stream.h"

#include <algorithm>

namespace paddle::net::peer {

StripedStream::StripedStream(std::vector<std::unique_ptr<Stream>> lanes)
    : lanes_(std::move(lanes)) {
  PADDLE_CHECK(!lanes_.empty());
}

void StripedStream::advance(Place& place, std::size_t count) const {
  place.left -= count;
  if (place.left == 0) place = {.lane = (place.lane + 1) % lanes_.size()};
}

Result<std::size_t> StripedStream::read_some(std::span<std::byte> into) {
  PADDLE_CHECK(!into.empty());
  std::size_t total = 0;
  while (total < into.size()) {
    const auto part = into.subspan(total, std::min(in_.left, into.size() - total));
    const auto got = lanes_[in_.lane]->read_some(part);
    // After some bytes, the next call reports the error.
    if (!got && total == 0) return got.error();
    if (!got || *got == 0) break;
    advance(in_, *got);
    total += *got;
    if (*got < part.size()) break;
  }
  return total;
}

Result<std::size_t> StripedStream::write_some(std::span<const ByteSpan> parts) {
  std::vector<ByteSpan> chunk;
  std::size_t total = 0;
  std::size_t skip = 0;  // bytes of parts.front()
  while (!parts.empty()) {
    // Collects the parts for the rest of this lane's chunk.
    chunk.clear();
    std::size_t bytes = 0;
    for (std::size_t i = 0; i < parts.size() && bytes < out_.left; ++i) {
      const ByteSpan rest = i == 0 ? parts[i].subspan(skip) : parts[i];
      if (rest.empty()) continue;
      chunk.push_back(rest.first(std::min(rest.size(), out_.left - bytes)));
      bytes += chunk.back().size();
    }
    if (bytes == 0) break;
    const auto put = lanes_[out_.lane]->write_some(chunk);
    if (!put && total == 0) return put.error();
    if (!put || *put == 0) break;
    advance(out_, *put);
    total += *put;
    if (*put < bytes) break;
    for (skip += *put; !parts.empty() && skip >= parts.front().size();) {
      skip -= parts.front().size();
      parts = parts.subspan(1);
    }
  }
  return total;
}

Status StripedStream::wait(Direction direction, TimePoint deadline) {
  const std::size_t lane = direction == Direction::kRead ? in_.lane : out_.lane;
  return lanes_[lane]->wait(direction, deadline);
}

bool StripedStream::has_read_ahead() const {
  return lanes_[in_.lane]->has_read_ahead();
}

}  // namespace paddle::net::peer
