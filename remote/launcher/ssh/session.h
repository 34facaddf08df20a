// An authenticated SSH session to a node, through a jump host when one is named.
#pragma once

#include <memory>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "remote/launcher/launcher.h"
#include "remote/launcher/ssh/pump.h"

namespace paddle::remote {

// How many logins this process has under way at one server. sshd drops connections at random once
// ten of them have not logged in yet (MaxStartups 10:30:100), which forty nodes behind one bastion
// reach at once.
constexpr int kLoginsAtOnce = 8;  // at one server; below the ten of sshd, which notices an end late

// Held from before the connection until the login is done or given up.
using LoginTurn = std::shared_ptr<void>;

// Waits for a turn at the server, which `door` names. kUnreachable when the deadline passes first.
Result<LoginTurn> take_login_turn(const std::string& door, TimePoint deadline);

// A server that drops connections is tried again after these pauses, each shortened by up to half
// at random.
constexpr int kLoginTriesMax = 8;
Duration pause_before_login_try(int tries);

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
