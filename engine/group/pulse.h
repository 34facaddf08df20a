// Pulses, in which each rank sends its state to the others a few times a second, and the last state
// that arrived from a rank.
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
constexpr std::size_t kRanksNamed = 8;  // the most ranks in a log line or a pulse

struct Pulse {
  std::string activity = {};                  // "testing"
  std::vector<std::uint32_t> waits_for = {};  // ranks
};
// Encode and decode the head of a pulse's frame, truncated to the limits above. decode_pulse()
// drops unknown ranks; nullopt: malformed.
std::string encode(const Pulse& pulse);
std::optional<Pulse> decode_pulse(std::string_view head, std::uint32_t ranks);

struct LastWord {
  TimePoint received{};
  Pulse pulse = {};

  bool is_busy() const { return !pulse.activity.empty(); }
  // Whether its last pulse is recent and reports that the rank waits for others.
  bool waits(TimePoint now) const {
    return !pulse.waits_for.empty() && now - received < 4 * kPulsePeriod;
  }
  // "last frame received 0.3 s ago, testing", with `by` behind the time. `names` are by rank.
  std::string text(TimePoint now, std::span<const std::string> names,
                   const std::string& by = "") const;
};

}  // namespace paddle::collective
