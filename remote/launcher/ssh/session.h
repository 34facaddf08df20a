// An authenticated SSH session to a node, through a jump host when one is named.
#pragma once

#include "base/clock.h"
#include "base/result.h"
#include "remote/launcher/login_answers.h"
#include "remote/launcher/node.h"
#include "remote/launcher/ssh/pump.h"

namespace paddle::remote {

// A session whose host key was not looked at yet: nothing of ours may be sent on it. Without a
// login the bastions on the way get keys only.
struct UnverifiedConnection {
  SshConnection connection;
  SshTarget target;
};
Result<UnverifiedConnection> shake_hands(const NodeSpec& node, TimePoint deadline, Login* login);

// The bastions on the way to it, as NodeSpec::jump or the ProxyJump of ~/.ssh/config has them.
Result<std::string> way_to(const NodeSpec& node);
// The bastion right before the node on a way that is not "", itself behind those before it. kUsage
// for a bad jump, and for more than kBastionsMax, which is how a way in a circle ends.
constexpr unsigned kBastionsMax = 8;
Result<NodeSpec> bastion_of(const NodeSpec& node, const std::string& way);

// Connects, checks the host key, authenticates: kUnreachable and kAuth name host and port, kUsage a
// refused name.
Result<SshConnection> open_session(const NodeSpec& node, TimePoint deadline, Login* login);

}  // namespace paddle::remote
