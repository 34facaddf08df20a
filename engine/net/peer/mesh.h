// The connections of one rank with all others of its group: it calls the lower ranks and is called
// by the higher ones. Strangers, other jobs and earlier lives of a rank are turned away. Once a
// pair is proven, its caller opens the further lanes one by one.
#pragma once

#include <functional>

#include "engine/net/peer/handshake.h"
#include "engine/net/peer/sockets.h"

namespace paddle::net::peer {

// Of unproven callers. For a new one another is turned away, of the address that has most of them:
// the oldest that has said nothing, or else the oldest.
constexpr std::size_t kUnprovenCallersMax = 256;
// Of one look of a rank at its sockets: an honest caller needs several looks for its proof.
constexpr std::size_t kAcceptsPerLook = 32;
static_assert(kUnprovenCallersMax >= 8 * kAcceptsPerLook);

struct MeshOptions {
  Self self;
  UniqueFd listener;
  std::vector<Endpoint> endpoints;        // by rank
  std::vector<std::uint32_t> ids = {};    // by rank, ascending: of NodeId; none: the ranks
  std::vector<std::string> names;         // by rank, for messages: "rank 2 (node b)"
  std::function<bool()> stop_asked = {};  // ends it with kInterrupted
};

// By rank, null at this one's. kUnreachable names who has not come by the deadline, or which of its
// lanes; kAuth: a lower rank's port answers with other keys; kUsage: a rank has another number of
// lanes.
Result<std::vector<std::unique_ptr<Connection>>> connect_ranks(const MeshOptions& options,
                                                               TimePoint deadline);

}  // namespace paddle::net::peer
