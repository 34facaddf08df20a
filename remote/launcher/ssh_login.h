// Authentication to a server with a checked host key: keys in a fixed order, then answers of the
// user.
#pragma once

#include <libssh/libssh.h>

#include "base/clock.h"
#include "base/result.h"
#include "remote/launcher/login_answers.h"
#include "remote/launcher/ssh_config.h"

namespace paddle::remote {

// The name of a server in questions to the user: "pw1"; "" where it is the host itself.
std::string known_name(const NodeSpec& node, const SshTarget& target);

// Tries the target's methods in their order. The keys are the named ones, those of ssh-agent, then
// the default ones; the user is asked only if `login` is not null. kAuth lists everything that was
// tried. Questions contain the known_name() of the node, which may be a bastion.
Status authenticate(ssh_session session, const SshTarget& target, const NodeSpec& node,
                    Login* login, TimePoint deadline);

}  // namespace paddle::remote
