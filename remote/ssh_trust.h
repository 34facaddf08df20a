// Who the server is and who we are: strict known_hosts, then public keys in a fixed order. Never
// passwords.
#pragma once

#include <libssh/libssh.h>

#include "engine/base/clock.h"
#include "engine/base/result.h"
#include "remote/ssh_config.h"

namespace paddle::remote {

// kAuth with the SHA256 fingerprint when the key is unknown (the hint says how to add it), changed
// or revoked (always refused).
Status check_host_key(ssh_session session, const SshTarget& target);

// The named identity, then ssh-agent, every IdentityFile of the config, and the default keys. kAuth
// names everything that was tried.
Status authenticate(ssh_session session, const SshTarget& target, TimePoint deadline);

}  // namespace paddle::remote
