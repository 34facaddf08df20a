// Copies between our folder and the rest of the node, with the user's own rights, as rsync -a has
// them.
#pragma once

#include <functional>
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

// CopyRequest of agent.proto, out of our folder. Files appear whole or not at all and replace
// existing ones; folders and links with the modes and times of the tree. Below `outside` no link is
// followed, not even one that comes there during the copy.
Result<wire::agent::CopyReply> copy_out(const Root& root, const wire::agent::CopyRequest& request,
                                        const wire::agent::CopyTree& tree);

// CopyRequest into our folder, by hard links where possible. Gives each entry once its content is
// here, a folder before what is in it, and none of CopyFolders. A link that is named itself stands
// for its target; those below are given as links. What is removed below `outside` during the copy
// is left out and counted.
Result<wire::agent::CopyReply> copy_in(
    const Root& root, const wire::agent::CopyRequest& request,
    const std::function<Status(const wire::agent::CopyEntry&)>& give);

}  // namespace paddle::agent
