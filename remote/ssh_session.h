// An authenticated SSH session to a node, through a jump host when one is named.
#pragma once

#include "engine/base/clock.h"
#include "engine/base/result.h"
#include "remote/node.h"
#include "remote/ssh_pump.h"

namespace paddle::remote {

// Connects, checks the host key, authenticates: kUnreachable and kAuth name host and port, kUsage a
// refused name.
Result<SshConnection> open_session(const NodeSpec& node, TimePoint deadline);

}  // namespace paddle::remote
