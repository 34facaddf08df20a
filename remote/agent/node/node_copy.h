// Copies between our folder and the rest of the node, with the rights of the user, like rsync -a.
#pragma once

#include <functional>
#include <string_view>

#include "base/result.h"
#include "proto/agent.pb.h"
#include "remote/agent/node/root.h"

namespace paddle::agent {

class CopyFolders {
 public:
  explicit CopyFolders(const Root& root) : root_(root) {}

  // A distinct name, because copied folders may contain the copy folders of another agent.
  static constexpr std::string_view kFolder = ".paddlectl-copies";

  // Whether a path below root is in the folder of copies.
  static bool holds(std::string_view path) {
    return path.starts_with(kFolder) && path.substr(kFolder.size()).starts_with('/');
  }
  // Clears the folder, then prevents other sessions from clearing it until this session ends.
  Status use();
  // Removes the folder's content unless a session, this one included, uses it.
  void clear();

 private:
  bool open_lock();

  const Root& root_;
  UniqueFd lock_;
  bool in_use_ = false;
};

// Carries out a CopyRequest of agent.proto that copies out of our folder. Files appear whole or not
// at all and replace existing ones; folders and links get the modes and times of the tree. No link
// below `outside` is followed, not even one that appears during the copy.
Result<wire::agent::CopyReply> copy_out(const Root& root, const wire::agent::CopyRequest& request,
                                        const wire::agent::CopyTree& tree);

// Carries out a CopyRequest that copies into our folder, by hard links where possible. Calls `give`
// for each entry once its content is here, for a folder before its entries, and for no folder of
// copies. If `outside` itself is a link, its target is copied; links below it are given as links.
// Entries that are removed below `outside` during the copy are left out and counted.
Result<wire::agent::CopyReply> copy_in(
    const Root& root, const wire::agent::CopyRequest& request,
    const std::function<Status(const wire::agent::CopyEntry&)>& give);

}  // namespace paddle::agent
