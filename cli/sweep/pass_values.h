// The values of a trial's figure at the ends of its passes, from the metrics of trainer 0.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/watch/metrics_line.h"

namespace paddle::cli {

struct PassValue {
  std::uint64_t passes = 0;  // done
  double value = 0;          // NaN: none, such as a cost that is not finite
  double rank = 0;           // lower is better
  std::int64_t unix_ms = 0;  // by the node's clock
};

class PassValues {
 public:
  // Where the values are: in the tests behind the ends of passes; in the lines of the ends
  // themselves, for a job that holds out no data; in any test, for a program of the user's own.
  enum class Source : std::uint8_t { kTests, kPasses, kOwnTests };

  PassValues(std::string figure, Source source) : figure_(std::move(figure)), source_(source) {}

  // The value that the line adds, if any. A pass that was trained twice has its first value.
  std::optional<PassValue> take(const MetricsLine& line);
  const std::vector<PassValue>& values() const { return values_; }

 private:
  std::string figure_;
  Source source_;
  std::optional<std::uint64_t> ended_pass_;  // the last one with a line of kind "pass"
  std::vector<PassValue> values_;
};

}  // namespace paddle::cli
