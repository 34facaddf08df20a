// Host key checks, strictly by known_hosts.
#pragma once

#include <string>

#include <libssh/libssh.h>

#include "base/result.h"
#include "remote/launcher/ssh/config.h"

namespace paddle::remote {

constexpr std::size_t kKnownHostsBytesMax = 16U << 20U;

// "ssh-ed25519 SHA256:base64" of the key that the server showed.
Result<std::string> host_fingerprint(ssh_session session);

// Before the handshake, which asks the server first for the types of key that the chosen file has.
void choose_known_hosts(ssh_session session, const SshTarget& target);

// Whether one of the known_hosts files has the server's key. kAuth when the key changed, is
// revoked, or cannot be looked up.
Result<bool> host_is_known(ssh_session session, const SshTarget& target);

// kAuth with the SHA256 fingerprint when the key is unknown (the hint says how to add it), changed
// or revoked (always refused).
Status check_host_key(ssh_session session, const SshTarget& target);

}  // namespace paddle::remote
