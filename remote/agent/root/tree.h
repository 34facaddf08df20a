// Walking and removing folders without ever following a symbolic link or leaving the file system.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"

namespace paddle::agent {

struct RemoveReport {
  std::size_t files = 0;
  std::vector<std::string> remaining;  // "path: why"
};

// Removes folder/name and all below it. keep(path) spares a path and so the folders above it.
// `path` is name's path for reports, below root.
void remove_tree(int folder, const std::string& name, const std::string& path,
                 const std::function<bool(const std::string&)>& keep, RemoveReport& report);

// Calls visit(fd, path below folder, size, executable) for every regular file below, sorted by
// name.
Status walk_files(int folder, const std::string& prefix,
                  const std::function<Status(int fd, const std::string& path, std::uint64_t size,
                                             bool executable)>& visit,
                  int depth = 0);

}  // namespace paddle::agent
