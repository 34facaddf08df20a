// Files from the folder an agent serves, over its exchange.
#pragma once

#include <string>
#include <vector>

#include "remote/agent_client.h"
#include "remote/agent_exchange.h"

namespace paddle::remote {

// Hashing or walking a large folder on a slow disk.
constexpr Duration kDiskDeadline = std::chrono::minutes(10);

// As AgentClient says of its calls of the same names.
class FileSync {
 public:
  explicit FileSync(Exchange& exchange) : exchange_(exchange) {}

  Result<std::vector<FileEntry>> list(const std::string& folder);
  Status fetch(const std::vector<FetchItem>& items);

 private:
  Status fetch_one(const FetchItem& item);
  Status receive_file(const std::string& path, int fd, Status& written);

  Exchange& exchange_;
};

}  // namespace paddle::remote
