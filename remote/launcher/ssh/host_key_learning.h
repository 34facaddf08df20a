// Learning of host keys: the key that a node shows, and the known_hosts file that makes it trusted.
#pragma once

#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "remote/launcher/launcher.h"

namespace paddle::remote {

struct ShownHostKey {
  std::string label;        // "host:port"
  std::string fingerprint;  // "ssh-ed25519 SHA256:base64", as ssh-keygen -l shows it
  std::string known_hosts;  // the file it is in, or belongs in
  std::string line;         // for known_hosts, without the newline
  std::string alias;        // the name in that line, if ~/.ssh/config says so
  bool known = false;       // already trusted
};

// Shakes hands and hangs up, without sending a user name, key or password. kAuth for a changed or
// revoked key. Bastions on the way must be trusted and accept our login.
Result<ShownHostKey> ask_host_key(const NodeSpec& node, TimePoint deadline, Login* login = nullptr);

// Adds the line to its file, atomically. Names are hashed if those in the file are (HashKnownHosts
// of ssh).
Status add_host_key(const ShownHostKey& key);

// The bastions on the way to a node, the first one reached directly, then the node itself.
Result<std::vector<NodeSpec>> path_to(const NodeSpec& node);

}  // namespace paddle::remote
