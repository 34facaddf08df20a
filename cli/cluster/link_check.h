// Checks the links between nodes on the data plane; the nodes themselves make the connections.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "cli/cluster/cluster_session.h"
#include "cli/cluster/context.h"

namespace paddle::cli {

// The endpoint at which a node's first pserver would listen.
struct LinkEnd {
  std::size_t member = 0;  // index in ClusterSession::members()
  std::string address;
  std::uint16_t port = 0;  // 0: the node cannot listen, and only connects to others
};

struct Link {
  std::size_t from = 0, to = 0;  // members
  remote::ProbeResult result;
};

// No new round begins after this time, because all pairs of a large cluster would take hours.
constexpr Duration kLinksDeadline = std::chrono::seconds(60);

struct LinkCheck {
  std::vector<Link> links;       // by from, then to
  std::size_t rounds = 0;        // needed for all pairs
  std::size_t rounds_tried = 0;  // before kLinksDeadline
  std::vector<Error> errors;     // one for each node that could not take part
};

// Every end with a port listens there, and every other end connects to it. In a round each end
// makes one connection and accepts one, so that no two connections compete for a node's bandwidth.
// In the round of distance d, the end at position i of the list connects to the end at i + d, past
// the last to the first. Until kLinksDeadline, the rounds take near and far distances in mixed
// order. kInterrupted: Ctrl-C.
Result<LinkCheck> check_links(Context& context, ClusterSession& session,
                              const std::vector<LinkEnd>& ends);

}  // namespace paddle::cli
