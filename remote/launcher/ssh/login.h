// Authentication to a server with a checked host key: keys in a fixed order, then a person's
// answers.
#pragma once

#include <libssh/libssh.h>

#include "base/clock.h"
#include "base/result.h"
#include "remote/launcher/login_answers.h"
#include "remote/launcher/ssh/config.h"

namespace paddle::remote {

// Tries the target's methods in its order: keys are the named ones, those of ssh-agent, then the
// default ones; a person is asked only with a login. kAuth names everything that was tried.
// bastion: the server is not a node itself.
Status authenticate(ssh_session session, const SshTarget& target, bool bastion, Login* login,
                    TimePoint deadline);

}  // namespace paddle::remote
