// Copies between our folder and the rest of the node, with the user's own rights, as scp has them.
#pragma once

#include <string_view>

#include "base/result.h"
#include "proto/agent.pb.h"
#include "remote/agent/root/root.h"

namespace paddle::agent {

class CopyFolders {
 public:
  explicit CopyFolders(const Root& root) : root_(root) {}

  // A distinct name, because copied folders may contain another agent's.
  static constexpr std::string_view kFolder = ".paddlectl-copies";

  // Whether a path below root is in one.
  static bool holds(std::string_view path) {
    return path.starts_with(kFolder) && path.substr(kFolder.size()).starts_with('/');
  }
  // Clears the folders, then keeps other sessions from clearing until this one ends.
  Status use();
  // Removes the folders unless a session, this one included, uses them.
  void clear();

 private:
  bool open_lock();

  const Root& root_;
  UniqueFd lock_;
  bool in_use_ = false;
};

// CopyRequest of agent.proto. Files copied out appear whole or not at all and replace existing
// ones. Only regular files are copied in, none of CopyFolders, and by hard links where possible.
// Files removed below `outside` during the copy are left out and counted.
Result<wire::agent::CopyReply> copy_files(const Root& root,
                                          const wire::agent::CopyRequest& request);

}  // namespace paddle::agent
