// Folders .paddlectl-copies/<name>, through which `put` and `get` pass. Leftovers of a session are
// removed by the next.
#pragma once

#include <string_view>

#include "base/result.h"
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

}  // namespace paddle::agent
