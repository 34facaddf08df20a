// One byte stream over several others, its lanes: chunk i of kChunkBytes goes on lane i mod their
// number, each way. So the lanes carry it together, and its bytes keep their order.
#pragma once

#include <vector>

#include "engine/net/socket.h"

namespace paddle::net::peer {

constexpr std::size_t kChunkBytes = 64U << 10U;  // of the protocol

class StripedStream final : public Stream {
 public:
  // Both ends have the same lanes in the same order, with nothing read or written on them yet.
  explicit StripedStream(std::vector<std::unique_ptr<Stream>> lanes);

  // An error of the lane whose turn it is, once all before it is read.
  Result<std::size_t> read_some(std::span<std::byte> into) override;
  Result<std::size_t> write_some(std::span<const ByteSpan> parts) override;
  Status wait(Direction direction, TimePoint deadline) override;
  bool has_read_ahead() const override;

  // The lanes that the next byte is read from and written to.
  std::size_t reads_from() const { return in_.lane; }
  std::size_t writes_to() const { return out_.lane; }

 private:
  struct Place {
    std::size_t lane = 0;
    std::size_t left = kChunkBytes;  // of the chunk
  };
  void advance(Place& place, std::size_t count) const;

  std::vector<std::unique_ptr<Stream>> lanes_;
  Place in_;
  Place out_;
};

}  // namespace paddle::net::peer
