// Host key checks, strictly by known_hosts.
#pragma once

#include <string>

#include <libssh/libssh.h>

#include "base/result.h"
#include "remote/launcher/known_hosts.h"
#include "remote/launcher/ssh_config.h"

namespace paddle::remote {

// "ssh-ed25519 SHA256:base64" of the key that the server showed.
Result<std::string> host_fingerprint(ssh_session session);

// Call before the handshake: asks the server first for the types of key that known_hosts contains.
Status prefer_known_keys(ssh_session session, const SshTarget& target);

// Looks the server's key up in the known_hosts files: kKnown or kUnknown. kAuth when the key
// changed or is revoked.
Result<HostKeyVerdict> judge_host_key(ssh_session session, const SshTarget& target);

// The line that makes the server's key known, without a line end.
Result<std::string> known_hosts_line(ssh_session session, const SshTarget& target);

// kAuth with the SHA256 fingerprint when the key is unknown (the hint says how to add it), changed
// or revoked (always refused).
Status check_host_key(ssh_session session, const SshTarget& target);

}  // namespace paddle::remote
