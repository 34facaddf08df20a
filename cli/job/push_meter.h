// Progress of a push to all nodes: bytes done and to do, rate, time left.
#pragma once

#include <mutex>
#include <string>

#include "cli/cluster/context.h"
#include "remote/client/fan_out.h"

namespace paddle::cli {

// Thread-safe.
class PushMeter {
 public:
  PushMeter(Context& context, std::size_t nodes)
      : context_(context), nodes_(nodes), begin_(context.clock.now()) {}

  // The callback of one node. It shows "pushing: 1.2 GB of 3.1 GB, 310 MB/s, 6 s left", or
  // "pushing: 1.2 GB so far" until all nodes have reported what they lack. Ctrl-C stops the push.
  remote::PushProgress progress();
  // ", 20 MB at 110 MB/s"; empty when nothing moved.
  std::string summary() const;

 private:
  std::string rate() const;  // REQUIRES: the mutex is held
  void add(std::uint64_t planned, std::uint64_t arrived, bool is_first_of_node);

  Context& context_;
  const std::size_t nodes_;
  const TimePoint begin_;
  mutable std::mutex mutex_;
  std::size_t nodes_planned_ = 0;
  std::uint64_t planned_ = 0, arrived_ = 0;
};

// ", 2.9 GB of it from node to node", and why some nodes took no part; empty if there is neither.
std::string fan_out_summary(std::uint64_t bytes_from_nodes, const remote::FanOut& fan_out);

}  // namespace paddle::cli
