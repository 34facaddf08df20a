// How a push to all nodes goes: moved and to move, rate, time left.
#pragma once

#include <mutex>
#include <string>

#include "cli/cluster/context.h"
#include "remote/push/fan_out.h"

namespace paddle::cli {

// For any number of threads.
class PushMeter {
 public:
  explicit PushMeter(Context& context) : context_(context), begin_(context.clock.now()) {}

  // Ctrl-C breaks the push off. Shows "pushing: 1.2 GiB of 3.1 GiB, 310 MiB/s, 6 s left".
  remote::PushProgress progress();
  // ", 20.0 MiB at 110 MiB/s"; empty when nothing moved.
  std::string summary() const;

 private:
  std::string rate() const;  // the mutex is held
  void add(std::uint64_t planned, std::uint64_t arrived);

  Context& context_;
  const TimePoint begin_;
  mutable std::mutex mutex_;
  std::uint64_t planned_ = 0, arrived_ = 0;
};

// ", 2.9 GiB of it from node to node", and why some took no part; empty when nothing is to tell.
std::string sharing_summary(std::uint64_t bytes_from_nodes, const remote::FanOut& fan_out);

}  // namespace paddle::cli
