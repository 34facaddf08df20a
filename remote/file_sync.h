// Files to and from the folder an agent serves, over its exchange.
#pragma once

#include <functional>
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

  Result<PushStats> push(const std::vector<PushItem>& items,
                         const std::function<void(std::uint64_t)>& progress);
  Result<std::vector<FileEntry>> list(const std::string& folder);
  Status fetch(const std::string& remote_path, const std::string& local_path);

 private:
  // Which of these the node lacks, in manifests that fit a frame.
  Result<std::vector<bool>> missing(const std::vector<wire::agent::FileEntry>& files);
  Status send_file(const PushItem& item, const wire::agent::FileEntry& entry,
                   const std::function<void(std::uint64_t)>& progress);
  Status acknowledge(int down_to);
  Status receive_file(const wire::agent::PathRequest& request, int fd, Status& written);

  Exchange& exchange_;
  int in_flight_ = 0;
};

}  // namespace paddle::remote
