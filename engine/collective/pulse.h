// Pulses, by which ranks tell of themselves a few times a second, and what the last one has told.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"

namespace paddle::collective {

constexpr Duration kPulsePeriod = std::chrono::milliseconds(250);
constexpr std::size_t kActivityBytesMax = 200;
constexpr std::size_t kRanksTold = 8;  // in a line of the log, and in a pulse

struct Pulse {
  std::string activity = {};                  // "testing"
  std::vector<std::uint32_t> waits_for = {};  // ranks
};
// The head of a pulse's frame. All is cut to the limits above, and unknown ranks are left out.
std::string encode(const Pulse& pulse);
std::optional<Pulse> decode_pulse(std::string_view head, std::uint32_t ranks);

struct LastWord {
  TimePoint heard{};
  Pulse pulse = {};

  bool is_busy() const { return !pulse.activity.empty(); }
  // Whether it has just said that it waits for others itself.
  bool waits(TimePoint now) const {
    return !pulse.waits_for.empty() && now - heard < 4 * kPulsePeriod;
  }
  // "last heard 0.3 s ago, testing", with `by` behind the time. Names are by rank.
  std::string text(TimePoint now, std::span<const std::string> names,
                   const std::string& by = "") const;
};

}  // namespace paddle::collective
