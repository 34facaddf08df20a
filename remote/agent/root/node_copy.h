// Files between our folder and the rest of the node, where the user may go as with scp.
#pragma once

#include "proto/agent.pb.h"
#include "remote/agent/root/root.h"

namespace paddle::agent {

// As CopyRequest says. Out of our folder each file appears whole or not at all, and replaces one of
// its name; into it nothing but regular files comes, without those of CopyFolders, and where it can
// be a file is linked. What is removed meanwhile below `outside` is left out and counted.
Result<wire::agent::CopyReply> copy_files(const Root& root,
                                          const wire::agent::CopyRequest& request);

}  // namespace paddle::agent
