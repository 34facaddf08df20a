// Listing and fetching of files in the folder that an agent serves.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace paddle::remote {

class Exchange;

struct FileEntry {
  std::string path;  // below the listed folder
  std::uint64_t size = 0;
  std::string sha256;  // hex
};

struct FetchItem {
  std::string remote_path;  // below root
  std::string local_path;
};

// AgentClient's calls of the same names.
class NodeFiles {
 public:
  explicit NodeFiles(Exchange& exchange) : exchange_(exchange) {}

  Result<std::vector<FileEntry>> list(const std::string& folder, bool without_hashes);
  Status fetch(const std::vector<FetchItem>& items);

 private:
  Status fetch_one(const FetchItem& item);
  Status receive_file(const std::string& path, int fd, Status& written);

  Exchange& exchange_;
};

}  // namespace paddle::remote
