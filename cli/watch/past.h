// The news of a running job that nobody followed: its last restarts and the end of its log.
#pragma once

#include <string>

#include "cli/cluster/cluster_session.h"
#include "cli/cluster/context.h"

namespace paddle::cli {

// Notes on stderr, the oldest first.
void tell_past(Context& context, ClusterSession& session, const std::string& job);

}  // namespace paddle::cli
