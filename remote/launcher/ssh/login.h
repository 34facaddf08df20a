// Authentication to a server with a checked host key: keys in a fixed order, then a person's
// answers.
#pragma once

#include <libssh/libssh.h>

#include "base/clock.h"
#include "base/result.h"
#include "remote/launcher/login_answers.h"
#include "remote/launcher/ssh/config.h"

namespace paddle::remote {

// "pw1 (10.0.0.1:22)": a server by the name that its user knows; "node1:22" where that is its host.
std::string shown_server(const NodeSpec& node, const SshTarget& target);

// Tries the target's methods in its order: keys are the named ones, those of ssh-agent, then the
// default ones; a person is asked only with a login. kAuth names everything that was tried.
// Questions name the node, which may be a bastion, as shown_server() does.
Status authenticate(ssh_session session, const SshTarget& target, const NodeSpec& node,
                    Login* login, TimePoint deadline);

}  // namespace paddle::remote
