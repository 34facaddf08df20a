// One node's store gives another what it lacks: PROTOCOL.md, "Between nodes".
#pragma once

#include <functional>
#include <vector>

#include "remote/agent/peer/peer.h"
#include "remote/agent/root/root.h"
#include "remote/agent/store/index.h"

namespace paddle::agent {

constexpr std::size_t kPiecesMax = 1000;                 // of one request
constexpr std::size_t kPieceBytesMax = kChunkBytesMax;   // a chunk, or a whole small file
constexpr std::uint64_t kPiecesBytesMax = 64ULL << 20U;  // of one request

// Bytes of an object, which may be one that is still arriving.
struct Piece {
  ObjectKey key;
  std::uint64_t offset = 0;
  std::uint32_t size = 0;
};

// From here on `listener` gives pieces of the store below root to whoever proves the token; tells
// where. Another port is taken when that one is not free. Sealed but on a loopback address, unless
// `seal_always`.
Result<wire::agent::ServeReply> serve_store(PeerListener& listener, const Root& root,
                                            const wire::agent::ServeRequest& request,
                                            ByteSpan token);

// Calls add(index, bytes) for each piece in turn, as far as they come; what they are is the
// caller's to verify. What stands in the way is an outcome.
Result<wire::agent::PullReply> pull_pieces(
    const wire::agent::ServeReply& from, ByteSpan token, const std::vector<Piece>& pieces,
    const std::function<Status(std::size_t index, ByteSpan bytes)>& add);

}  // namespace paddle::agent
