// An authenticated SSH session to a node, through a jump host when one is named.
#pragma once

#include "engine/base/clock.h"
#include "engine/base/result.h"
#include "remote/login_answers.h"
#include "remote/node.h"
#include "remote/ssh_pump.h"

namespace paddle::remote {

// A session whose host key was not looked at yet: nothing of ours may be sent on it. Without a
// login the bastions on the way get keys only.
struct UnverifiedConnection {
  SshConnection connection;
  SshTarget target;
};
Result<UnverifiedConnection> shake_hands(const NodeSpec& node, TimePoint deadline, Login* login);

// The bastion right before the node, itself behind those before it. kUsage for a bad jump.
constexpr std::size_t kBastionsMax = 8;
Result<NodeSpec> bastion_of(const NodeSpec& node);

// Connects, checks the host key, authenticates: kUnreachable and kAuth name host and port, kUsage a
// refused name.
Result<SshConnection> open_session(const NodeSpec& node, TimePoint deadline, Login* login);

}  // namespace paddle::remote
