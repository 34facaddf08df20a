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
  std::string known_hosts;  // the file that contains it or is to contain it
  std::string line;         // for known_hosts, without the newline
  std::string alias;        // HostKeyAlias, the name in that line; "": none
  bool known = false;       // already trusted
};

// Makes the SSH handshake and disconnects, without sending a user name, key or password to the
// node. kAuth for a changed or revoked key. Bastions on the way must be trusted and accept our
// login.
Result<ShownHostKey> ask_host_key(const NodeSpec& node, TimePoint deadline, Login* login = nullptr);

// Adds the line to its file, atomically. Hashes the name if the names in the file are hashed
// (HashKnownHosts of ssh).
Status add_host_key(const ShownHostKey& key);

// The bastions on the way to a node, the first one reached directly, then the node itself.
Result<std::vector<NodeSpec>> path_to(const NodeSpec& node);

}  // namespace paddle::remote
