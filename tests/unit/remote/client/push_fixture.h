// A node that files are pushed to, and a look at what it keeps.
#pragma once

#include <sys/stat.h>

#include <filesystem>

#include "tests/support/noise.h"
#include "tests/unit/remote/client/agent_fixture.h"

namespace paddle::remote {

namespace fs = std::filesystem;

inline ino_t inode_of(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 ? info.st_ino : 0;
}

inline std::size_t files_below(const std::string& folder) {
  std::size_t count = 0;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    count += entry.is_regular_file() ? 1 : 0;
  return count;
}

class PushTest : public AgentTest {
 protected:
  std::string at(const std::string& path) const { return node_.root + "/" + path; }
  std::string objects() const { return at("store/objects"); }
};

}  // namespace paddle::remote
