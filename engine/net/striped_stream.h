// One byte stream over several others, its lanes. In each direction chunk i, of kChunkBytes, is
// sent on lane i modulo the number of lanes. So all lanes share the load, and the bytes keep their
// order.
#pragma once

#include <vector>

#include "engine/net/socket.h"

namespace paddle::net::peer {

constexpr std::size_t kChunkBytes = 64U << 10U;  // fixed by the protocol

class StripedStream final : public Stream {
 public:
  // REQUIRES: both ends pass the same lanes in the same order, and nothing was read or written on
  // them.
  explicit StripedStream(std::vector<std::unique_ptr<Stream>> lanes);

  // Returns an error of the next lane only after all bytes before it are read.
  Result<std::size_t> read_some(std::span<std::byte> into) override;
  Result<std::size_t> write_some(std::span<const ByteSpan> parts) override;
  Status wait(Direction direction, TimePoint deadline) override;
  bool has_read_ahead() const override;

  // The lane that the next byte is read from, and the lane that the next byte is written to.
  std::size_t reads_from() const { return in_.lane; }
  std::size_t writes_to() const { return out_.lane; }

 private:
  struct Place {
    std::size_t lane = 0;
    std::size_t left = kChunkBytes;  // bytes left of the chunk
  };
  void advance(Place& place, std::size_t count) const;

  std::vector<std::unique_ptr<Stream>> lanes_;
  Place in_;
  Place out_;
};

}  // namespace paddle::net::peer
