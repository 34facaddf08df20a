// Room on this machine's disk for files that nodes have listed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <mutex>
#include <string>
#include <vector>

#include "base/result.h"
#include "remote/agent_client.h"

namespace paddle::cli {

// Thread-safe.
class DiskRoom {
 public:
  // `shown` names the folder, which need not be there yet, in errors.
  DiskRoom(const std::filesystem::path& folder, std::string shown);

  // Takes room for the files of a node, before the first byte of them comes. kResource, with the
  // node and the largest of them, when that is more than is left.
  Status reserve(const std::string& node, const std::vector<remote::FetchItem>& files);
  std::uint64_t free_bytes() const { return free_; }
  std::uint64_t reserved_bytes() const { return reserved_; }

 private:
  const std::string shown_;
  std::uint64_t free_;  // when this command began
  std::mutex mutex_;
  std::uint64_t reserved_ = 0;
};

}  // namespace paddle::cli
