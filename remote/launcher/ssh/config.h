// What may be said to libssh: names checked against an allow-list, then options from NodeSpec and
// ~/.ssh/config.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include <libssh/libssh.h>

#include "base/clock.h"
#include "base/result.h"
#include "remote/launcher/node.h"

namespace paddle::remote {

struct SshSessionFree {
  void operator()(ssh_session session) const {
    // ssh_disconnect would leave a socket open that libssh was given, though libssh closes the same
    // socket when the connection breaks: only the silent way closes it once in every case.
    ssh_silent_disconnect(session);
    ssh_free(session);
  }
};
using SshHandle = std::unique_ptr<ssh_session_struct, SshSessionFree>;

// Letters, digits and "._:-", at most 255, not starting with '-' or '.': nothing a shell or an
// option parser could see.
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

// Where the session goes after ~/.ssh/config was applied.
struct SshTarget {
  std::string host;
  std::uint16_t port = 22;
  std::string user;
  std::string identity;        // offered first; "" when none was configured
  std::string known_hosts;     // the user's file, expanded
  std::string directory;       // ~/.ssh, expanded
  std::string jump;            // the bastions on the way, as NodeSpec::jump has them; "": none
  bool proxy_command = false;  // ~/.ssh/config names a ProxyCommand: libssh connects through it
  std::string label() const;   // "host:port"
};

// Reads ~/.ssh/config (and /etc/ssh/ssh_config), then lets what NodeSpec says win. kUsage for a
// refused name.
Result<SshTarget> apply_options(ssh_session session, const NodeSpec& node);

// Bounds libssh's next blocking call by what is left; kUnreachable when nothing is.
Status set_deadline(ssh_session session, TimePoint deadline);

}  // namespace paddle::remote
