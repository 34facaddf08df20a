// Two notations of [train]: a condition on a figure of a test, "auc >= 0.8", and a length of time,
// "1h30m".
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

namespace paddle::config {

struct StopWhen {
  enum class Relation { kLess, kAtMost, kMore, kAtLeast };

  std::string text;    // "auc >= 0.8"
  std::string figure;  // "cost", or as an evaluator calls it
  Relation relation = Relation::kAtLeast;
  double limit = 0;

  bool holds(double value) const;  // never for a value that is no number
};

std::optional<StopWhen> parse_stop_when(std::string_view text);

// "90s", "2h", "1h30m": whole numbers of days, hours, minutes and seconds, the larger units first.
// Nothing for another text, for 0 and for more than ten years.
std::optional<std::chrono::seconds> parse_duration(std::string_view text);

}  // namespace paddle::config
