// copy/<name> folders, through which `put` and `get` pass: one that its session left behind goes
// with the next.
#pragma once

#include <filesystem>
#include <string_view>

#include "engine/base/result.h"
#include "remote/agent/root.h"

namespace paddle::agent {

class CopyFolders {
 public:
  explicit CopyFolders(const Root& root) : root_(root) {}

  // Whether a path below root is in one.
  static bool holds(std::string_view path) { return path.starts_with("copy/"); }
  // Whether this folder, of whichever agent, holds such ones: it is marked before anything is in
  // it.
  static bool marked(const std::filesystem::path& folder);
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
