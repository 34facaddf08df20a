// .paddlectl-copies/<name> folders, through which `put` and `get` pass: one that its session left
// behind goes with the next.
#pragma once

#include <string_view>

#include "base/result.h"
#include "remote/agent/root/root.h"

namespace paddle::agent {

class CopyFolders {
 public:
  explicit CopyFolders(const Root& root) : root_(root) {}

  // Known on sight: another agent's may lie below what one copies.
  static constexpr std::string_view kFolder = ".paddlectl-copies";

  // Whether a path below root is in one.
  static bool holds(std::string_view path) {
    return path.starts_with(kFolder) && path.substr(kFolder.size()).starts_with('/');
  }
  // From here to its end this session has folders there, which no other one clears. Clears first.
  Status use();
  // Removes what is there unless a session uses it; does nothing in one that does.
  void clear();

 private:
  bool open_lock();

  const Root& root_;
  UniqueFd lock_;
  bool in_use_ = false;
};

}  // namespace paddle::agent
