// Who we are to a server whose host key was checked: keys in a fixed order, then what a person
// says.
#pragma once

#include <libssh/libssh.h>

#include "base/clock.h"
#include "base/result.h"
#include "remote/launcher/login_answers.h"
#include "remote/launcher/ssh/config.h"

namespace paddle::remote {

// The named identity, then ssh-agent, every IdentityFile of the config, and the default keys. Then,
// with a login, keyboard-interactive or else password. kAuth names everything that was tried.
// bastion: the server is not a node itself.
Status authenticate(ssh_session session, const SshTarget& target, bool bastion, Login* login,
                    TimePoint deadline);

}  // namespace paddle::remote
