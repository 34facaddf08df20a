// A snapshot as trainer 0 exports it from the ports between two passes, and the disk that keeps it.
#pragma once

#include <memory>
#include <vector>

#include "base/bytes.h"
#include "proto/wire.pb.h"

namespace paddle::sim {

struct Snapshot {
  struct Rows {
    std::uint64_t count = 0;
    std::uint32_t state_width = 0;
    Bytes tail;
  };
  wire::Position position;                   // of the first port
  std::vector<std::vector<float>> dense;     // by dense port: its values, then its state's planes
  std::vector<std::uint64_t> update_counts;  // by dense port
  std::vector<std::vector<Rows>> rows;       // by sparse port, as exported
};

// A save counts once it is whole.
struct Disk {
  std::shared_ptr<const Snapshot> newest;
  std::uint64_t saves = 0;
};

}  // namespace paddle::sim
