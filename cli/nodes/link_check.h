// Who reaches whom on the data plane, tried by the nodes themselves.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "cli/cluster/cluster_session.h"
#include "cli/cluster/context.h"

namespace paddle::cli {

// Where a node's first pserver would listen.
struct LinkEnd {
  std::size_t member = 0;  // index in ClusterSession::members()
  std::string address;
  std::uint16_t port = 0;  // 0: it cannot listen, and only calls others
};

struct Link {
  std::size_t from = 0, to = 0;  // members
  remote::ProbeResult result;
};

// No round begins after so long. All pairs of a large cluster would take hours.
constexpr Duration kLinksDeadline = std::chrono::seconds(60);

struct LinkCheck {
  std::vector<Link> links;  // by from, then to
  std::size_t rounds = 0,
              rounds_tried = 0;  // that try all pairs, and of them what there was time for
  std::vector<Error> errors;     // what kept a node from taking part
};

// Every end with a port listens there, and every other one calls it: in rounds in which each calls
// one and is called by one, so that no two share a node's bandwidth. Rounds are spread over the
// distances in the list, and end at kLinksDeadline. kInterrupted after Ctrl-C.
Result<LinkCheck> check_links(Context& context, ClusterSession& session,
                              const std::vector<LinkEnd>& ends);

}  // namespace paddle::cli
