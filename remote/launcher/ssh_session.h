// An authenticated SSH session to a node, through a jump host when one is named.
#pragma once

#include <memory>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "remote/launcher/launcher.h"
#include "remote/launcher/ssh_pump.h"

namespace paddle::remote {

// The number of logins that this process makes at one server at the same time. sshd drops
// connections at random once ten of them have not logged in yet (MaxStartups 10:30:100); forty
// nodes behind one bastion would reach that number.
constexpr int kLoginsAtOnce = 8;  // below sshd's ten, since sshd notices the end of a login late

// A place among these logins, held from before the connection until the login succeeds or fails.
using LoginSlot = std::shared_ptr<void>;

// Waits for a slot at the server that `server` names. kUnreachable when the deadline passes first.
Result<LoginSlot> acquire_login_slot(const std::string& server, TimePoint deadline);

// The pause before another try after a server dropped the connection, shortened by up to half at
// random.
constexpr int kLoginTriesMax = 8;
Duration pause_before_login_try(int tries);

// A session whose host key is not checked yet: no user name or secret may be sent on it. If `login`
// was null, only keys are offered to the bastions on the way.
struct UnverifiedConnection {
  SshConnection connection;
  SshTarget target;
  LoginSlot slot = {};  // at the server
};
// Connects and makes the handshake. If the server drops the connection, tries again, up to
// kLoginTriesMax tries or until the deadline.
Result<UnverifiedConnection> shake_hands(const NodeSpec& node, TimePoint deadline, Login* login);

// The bastions on the way to the node, from NodeSpec::jump or ProxyJump in ~/.ssh/config.
Result<std::string> jumps_to(const NodeSpec& node);
// The last bastion of `jumps` (not ""), which is itself reached through the ones before. kUsage for
// a malformed jump, and for more than kBastionsMax bastions, so that a circular configuration ends.
constexpr unsigned kBastionsMax = 8;
Result<NodeSpec> bastion_of(const NodeSpec& node, const std::string& jumps);

// Connects, checks the host key, authenticates. kUnreachable and kAuth name host and port; kUsage
// names an invalid host or user.
Result<SshConnection> open_session(const NodeSpec& node, TimePoint deadline, Login* login);

}  // namespace paddle::remote
