// Learning a host key: what a node shows before anything is sent to it, and the file that says it
// is trusted.
#pragma once

#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "remote/launcher/login_answers.h"
#include "remote/launcher/node.h"

namespace paddle::remote {

struct ShownHostKey {
  std::string label;        // "host:port"
  std::string fingerprint;  // "ssh-ed25519 SHA256:base64", the latter as ssh-keygen -l has it
  std::string known_hosts;  // the file it is in, or belongs in
  std::string line;         // of known_hosts, without an end of line
  bool known = false;       // already trusted
};

// Shakes hands and hangs up: no user name, key or password of ours is sent. kAuth for a changed or
// revoked key; a bastion on the way must be trusted and let us in.
Result<ShownHostKey> ask_host_key(const NodeSpec& node, TimePoint deadline, Login* login = nullptr);

// Adds the line to its file, whole or not at all; names are hashed where those in the file are, as
// ssh does it with HashKnownHosts.
Status add_host_key(const ShownHostKey& key);

// The bastions on the way to a node, the one we reach directly first, then the node itself.
Result<std::vector<NodeSpec>> path_to(const NodeSpec& node);

}  // namespace paddle::remote
