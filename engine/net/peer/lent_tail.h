// Tails that a rank lends to another one of its host: a frame tells where it lies in an array of
// the sender, and the receiver reads it there. PROTOCOL.md has the bytes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/net/peer/lent_array.h"
#include "proto/frame.h"

namespace paddle::net::peer {

// Of the flags of a frame whose tail is lent. The head is that of lent_head(), there is no tail.
constexpr std::uint16_t kTailIsLent = 0x8000;
constexpr std::size_t kLentHeadBytes = kLentOfferBytes + 8 + 8;  // offer, offset, size
// Shorter tails are copied: that takes less than waiting until the peer has read them.
constexpr std::size_t kLentTailBytesMin = 128U << 10U;
constexpr std::size_t kArraysOfPeerMax = 16;

// The part of the array, which contains it.
std::string lent_head(const LentArray& array, ByteSpan part);

// The size of the part, as the head tells it.
std::uint64_t lent_bytes(std::string_view head);

// The arrays that a peer has lent, from its first mention of each on.
class ArraysOfPeer {
 public:
  // The part that a head of kLentHeadBytes tells of. kData: outside of its array, or of too many
  // arrays; else as of LentArray::open().
  Result<ByteSpan> find(std::string_view head);

 private:
  std::vector<LentArray> arrays_;
};

}  // namespace paddle::net::peer
