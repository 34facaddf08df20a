// A libssh session and its options.
#pragma once

#include <memory>
#include <span>
#include <string>

#include <libssh/libssh.h>

#include "base/clock.h"
#include "base/result.h"
#include "remote/launcher/ssh_target.h"

namespace paddle::remote {

// Ends the session and closes its socket.
struct SshSessionFree {
  void operator()(ssh_session session) const;
};
using SshHandle = std::unique_ptr<ssh_session_struct, SshSessionFree>;

struct SshKeyFree {
  void operator()(ssh_key key) const { ssh_key_free(key); }
};
using KeyHandle = std::unique_ptr<ssh_key_struct, SshKeyFree>;

// Base64, as in key files and known_hosts.
std::string base64(std::span<const unsigned char> bytes);

// Sets the options of a session to the target.
Status apply_options(ssh_session session, const SshTarget& target);

// Bounds libssh's next blocking call by the time left; kUnreachable when the deadline has passed.
Status set_deadline(ssh_session session, TimePoint deadline);

}  // namespace paddle::remote
