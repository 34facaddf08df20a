// Bytes from file to file within the kernel.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

namespace paddle::agent {

Status copy_range(int from, std::uint64_t from_offset, int to, std::uint64_t to_offset,
                  std::uint64_t bytes);
// All of it becomes `to`'s content, shared until either is written to: in no time and no space.
// False where the file system cannot (XFS and Btrfs can).
bool share_content(int from, int to);
// All of it, with its permission bits; `name` is made anew.
Status copy_file(int from, int folder, const std::string& name);

}  // namespace paddle::agent
