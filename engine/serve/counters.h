// Counts of what a server has done, in the text format of Prometheus.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include "base/clock.h"
#include "engine/serve/model.h"

namespace paddle::serve {

class Counters {
 public:
  // A reply: the path as a label, its status, and how long the request took once it was read.
  void count(const std::string& path, unsigned status, Duration took);
  void count(const Work& work);
  // So many requests were scored together.
  void count_joined(std::uint64_t requests);
  std::string text(const Model& model) const;

  // Gauges and counts of their owners.
  std::atomic<std::uint64_t> connections = 0, queued = 0, refused_connections = 0;
  std::atomic<std::uint64_t> evicted_connections = 0;
  std::atomic<std::uint64_t> reloads = 0, reloads_failed = 0;

 private:
  static constexpr std::array<double, 12> kBounds{0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025,
                                                  0.05,   0.1,   0.25,   0.5,   1,    2.5};
  struct Times {
    std::array<std::uint64_t, kBounds.size()> buckets{};  // up to the bound
    std::uint64_t count = 0;
    double seconds = 0;
  };

  mutable std::mutex mutex_;
  std::map<std::pair<std::string, unsigned>, std::uint64_t> replies_;
  std::map<std::string, Times> times_;
  std::uint64_t records_ = 0, batches_ = 0, batched_requests_ = 0;
  inference::RowCounts rows_;
};

}  // namespace paddle::serve
