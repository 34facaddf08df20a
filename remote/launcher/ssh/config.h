// Options for libssh: names checked against an allow-list, values from NodeSpec and ~/.ssh/config.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include <libssh/libssh.h>

#include "base/clock.h"
#include "base/result.h"
#include "remote/launcher/launcher.h"

namespace paddle::remote {

struct SshSessionFree {
  void operator()(ssh_session session) const {
    // Only the silent disconnect closes a socket that was handed to libssh exactly once:
    // ssh_disconnect leaves it open, and a broken connection closes it.
    ssh_silent_disconnect(session);
    ssh_free(session);
  }
};
using SshHandle = std::unique_ptr<ssh_session_struct, SshSessionFree>;

struct SshKeyFree {
  void operator()(ssh_key key) const { ssh_key_free(key); }
};
using KeyHandle = std::unique_ptr<ssh_key_struct, SshKeyFree>;

// Letters, digits and "._:-", at most 255, not starting with '-' or '.': nothing that a
// shell or an option parser would interpret.
Status check_host_name(std::string_view host);
// Letters, digits and "._-", at most 64, not starting with '-'.
Status check_user_name(std::string_view user);

// "[user@]host[:port]" as in ProxyJump; an IPv6 address with a port is written "[address]:port".
struct JumpHost {
  std::string user;
  std::string host;
  std::uint16_t port = 0;
};
Result<JumpHost> parse_jump(std::string_view text);

// The target of a session, with ~/.ssh/config applied.
struct SshTarget {
  std::string host;
  std::uint16_t port = 22;
  std::string user;
  std::string identity;        // offered first; "" when none was configured
  std::string known_hosts;     // the user's file, expanded
  std::string directory;       // ~/.ssh, expanded
  std::string jump;            // bastions on the way, in NodeSpec::jump's format; "": none
  bool proxy_command = false;  // ~/.ssh/config names a ProxyCommand: libssh connects through it
  std::string label() const;   // "host:port"
};

// Reads ~/.ssh/config and /etc/ssh/ssh_config; NodeSpec takes precedence. kUsage for an invalid
// name.
Result<SshTarget> apply_options(ssh_session session, const NodeSpec& node);

// Bounds libssh's next blocking call by the time left; kUnreachable when none is.
Status set_deadline(ssh_session session, TimePoint deadline);

}  // namespace paddle::remote
