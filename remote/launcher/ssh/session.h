// An authenticated SSH session to a node, through a jump host when one is named.
#pragma once

#include "base/clock.h"
#include "base/result.h"
#include "remote/launcher/launcher.h"
#include "remote/launcher/ssh/login_turns.h"
#include "remote/launcher/ssh/pump.h"

namespace paddle::remote {

// A session whose host key is not checked yet: no user name or secret may be sent on it. Without a
// login only keys are offered to the bastions on the way.
struct UnverifiedConnection {
  SshConnection connection;
  SshTarget target;
  LoginTurn turn = {};  // at the server
};
// A server that drops the connection is tried again, kLoginTriesMax times or until the deadline.
Result<UnverifiedConnection> shake_hands(const NodeSpec& node, TimePoint deadline, Login* login);

// The bastions on the way to the node, from NodeSpec::jump or ProxyJump in ~/.ssh/config.
Result<std::string> jumps_to(const NodeSpec& node);
// The last bastion of `jumps` (not ""), which is itself reached through the ones before. kUsage for
// a malformed jump, and above kBastionsMax, which ends a circle.
constexpr unsigned kBastionsMax = 8;
Result<NodeSpec> bastion_of(const NodeSpec& node, const std::string& jumps);

// Connects, checks the host key, authenticates. kUnreachable and kAuth name host and port; kUsage
// names an invalid host or user.
Result<SshConnection> open_session(const NodeSpec& node, TimePoint deadline, Login* login);

}  // namespace paddle::remote
