// Room for a push on a node's disk, asked for before its bytes arrive.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "remote/agent/root/root.h"

namespace paddle::agent {

// On the file system of the root; the greatest number where the system does not tell.
std::uint64_t free_bytes(const Root& root);

class PushRoom {
 public:
  // `folder` names the root in errors.
  PushRoom(std::string folder, std::uint64_t free) : folder_(std::move(folder)), free_(free) {}

  // Takes room for one more file, and as much again as its job needs: a fifth, at most 1 GB.
  // kResource when the files so far do not fit; nothing has been written for them then.
  Status take(std::uint64_t file_bytes);

 private:
  std::string folder_;
  std::uint64_t free_;  // when the push began
  std::uint64_t needed_ = 0;
};

}  // namespace paddle::agent
