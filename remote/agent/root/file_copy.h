// Copies of file contents within the kernel.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

namespace paddle::agent {

Status copy_range(int from, std::uint64_t from_offset, int to, std::uint64_t to_offset,
                  std::uint64_t bytes);
// Makes `to` share all of `from`'s blocks, copy-on-write: instant, and without disk space. False
// where the file system cannot (XFS and Btrfs can).
bool share_content(int from, int to);
// Copies content and permission bits to a new file `name`.
Status copy_file(int from, int folder, const std::string& name);

}  // namespace paddle::agent
