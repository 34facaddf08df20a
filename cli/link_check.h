// Who reaches whom on the data plane, tried by the nodes themselves.
#pragma once

#include <string>
#include <vector>

#include "cli/cluster_session.h"
#include "cli/context.h"
#include "engine/base/result.h"

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

struct LinkCheck {
  std::vector<Link> links;    // by from, then to
  std::vector<Error> errors;  // what kept a node from taking part
};

// Every end with a port listens there, and every other one calls it: in rounds in which each calls
// one and is called by one, so that no two share a node's bandwidth. kInterrupted after Ctrl-C.
Result<LinkCheck> check_links(Context& context, ClusterSession& session,
                              const std::vector<LinkEnd>& ends);

}  // namespace paddle::cli
