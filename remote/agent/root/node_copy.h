// Copies between our folder and the rest of the node, with the user's own rights, as scp has them.
#pragma once

#include "proto/agent.pb.h"
#include "remote/agent/root/root.h"

namespace paddle::agent {

// CopyRequest of agent.proto. Files copied out appear whole or not at all and replace existing
// ones. Only regular files are copied in, none of CopyFolders, and by hard links where possible.
// Files removed below `outside` during the copy are left out and counted.
Result<wire::agent::CopyReply> copy_files(const Root& root,
                                          const wire::agent::CopyRequest& request);

}  // namespace paddle::agent
