// Transfer of objects from one node's store to another's: PROTOCOL.md, "Between nodes".
#pragma once

#include <functional>
#include <vector>

#include "remote/agent/node/root.h"
#include "remote/agent/store/index.h"
#include "remote/agent/store/peer.h"

namespace paddle::agent {

constexpr std::size_t kPiecesMax = 1000;                 // per request
constexpr std::size_t kPieceBytesMax = kChunkBytesMax;   // a chunk, or a whole small file
constexpr std::uint64_t kPiecesBytesMax = 64ULL << 20U;  // per request

// A range of an object, which may still be arriving.
struct Piece {
  ObjectKey key;
  std::uint64_t offset = 0;
  std::uint32_t size = 0;
};

// Makes `listener` serve pieces of the store below root to callers that prove their key; returns
// the address. Picks another port when the requested one is taken. Sealed, except on a loopback
// address without `seal_always`.
Result<wire::agent::ServeReply> serve_store(PeerListener& listener, const Root& root,
                                            const wire::agent::ServeRequest& request,
                                            ByteSpan token);

// Calls add(index, bytes) for each piece that arrives, in order; the caller verifies the bytes.
// Network failures are outcomes in the reply. Does not use the blobs of the request.
Result<wire::agent::PullReply> pull_pieces(
    const wire::agent::PullRequest& request, ByteSpan caller_key, const std::vector<Piece>& pieces,
    const std::function<Status(std::size_t index, ByteSpan bytes)>& add);

}  // namespace paddle::agent
