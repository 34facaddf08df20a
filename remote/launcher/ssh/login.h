// Authentication to a server with a checked host key: keys in a fixed order, then a person's
// answers.
#pragma once

#include <libssh/libssh.h>

#include "base/clock.h"
#include "base/result.h"
#include "remote/launcher/login_answers.h"
#include "remote/launcher/ssh/config.h"

namespace paddle::remote {

// The name by which a person knows a server, for questions: "pw1"; "" where it is its host.
std::string known_name(const NodeSpec& node, const SshTarget& target);

// Tries the target's methods in its order: keys are the named ones, those of ssh-agent, then the
// default ones; a person is asked only with a login. kAuth names everything that was tried.
// Questions name the node, which may be a bastion, as known_name() does.
Status authenticate(ssh_session session, const SshTarget& target, const NodeSpec& node,
                    Login* login, TimePoint deadline);

}  // namespace paddle::remote
