// Files and folders under /proc, /sys and /etc, read as far as this user may.
#pragma once

#include <string>
#include <vector>

namespace paddle::agent {

// The content, or "" when it cannot be read.
std::string text_of(const std::string& path);
// The entries of a folder, sorted; none when it cannot be read.
std::vector<std::string> names_under(const std::string& folder);

}  // namespace paddle::agent
