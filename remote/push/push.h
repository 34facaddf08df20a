// The items of a push, and its statistics.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace paddle::remote {

struct PushItem {
  std::string local_path;   // a regular file on this machine
  std::string remote_path;  // below root
  bool executable = false;  // even when the local file is not
  std::string link = {};    // target of a symbolic link; local_path is then not read
};
struct PushStats {
  std::size_t files = 0, files_sent = 0;    // files_sent: at least a part moved
  std::uint64_t bytes = 0, bytes_sent = 0;  // of content
  std::uint64_t bytes_on_wire = 0;          // compressed, from this machine
  std::uint64_t bytes_from_nodes = 0;       // the part of bytes_sent that other nodes sent
};
// Called with the bytes found missing and the bytes delivered since the last call; false cancels
// the push.
using PushProgress = std::function<bool(std::uint64_t planned, std::uint64_t arrived)>;

}  // namespace paddle::remote
