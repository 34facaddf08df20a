// The connections of one rank with all others of its group: it calls the lower ranks, and the
// higher ranks call it. Callers without a key, other jobs and earlier incarnations of a rank are
// refused. Once a pair is proven, its caller opens the further lanes one by one.
#pragma once

#include <functional>

#include "engine/net/mesh_sockets.h"
#include "engine/net/peer_handshake.h"

namespace paddle::net::peer {

// The most unproven callers. For a further one, a caller of the address with most of them is
// dropped: the oldest that has sent nothing, else the oldest.
constexpr std::size_t kUnprovenCallersMax = 256;
// The most callers accepted in one round over the sockets; an honest caller needs several rounds
// for its proof.
constexpr std::size_t kAcceptsPerLook = 32;
static_assert(kUnprovenCallersMax >= 8 * kAcceptsPerLook);

struct MeshOptions {
  Self self;
  UniqueFd listener;
  std::vector<Endpoint> endpoints;        // by rank
  std::vector<std::uint32_t> ids = {};    // NodeId::index by rank, ascending; empty: the rank
  std::vector<std::string> names;         // by rank, for messages: "rank 2 (node b)"
  std::function<bool()> stop_asked = {};  // true: connect_ranks() ends with kInterrupted
};

// Connects this rank with all others. Returns the connections by rank, null for this rank.
// kUnreachable: at the deadline ranks or lanes were missing, which the message names; kAuth: the
// port of a lower rank answers with other keys; kUsage: a rank has another number of lanes.
Result<std::vector<std::unique_ptr<Connection>>> connect_ranks(const MeshOptions& options,
                                                               TimePoint deadline);

}  // namespace paddle::net::peer
