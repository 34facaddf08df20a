// The state of a rank, which the rank sends to the others a few times a second, and the last state
// that arrived from another rank.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"

namespace paddle::collective {

constexpr Duration kRankStatePeriod = std::chrono::milliseconds(250);
constexpr std::size_t kActivityBytesMax = 200;
constexpr std::size_t kRanksNamed = 8;  // the most ranks in a log line or a rank state

struct RankState {
  std::string activity = {};                  // "testing"
  std::vector<std::uint32_t> waits_for = {};  // ranks
};
// Encode and decode the head of a frame of type kRankState, truncated to the limits above.
// decode_rank_state() drops unknown ranks; nullopt: malformed.
std::string encode(const RankState& state);
std::optional<RankState> decode_rank_state(std::string_view head, std::uint32_t ranks);

struct LastRankState {
  TimePoint received{};  // when the last frame of any type arrived
  RankState state = {};

  bool is_busy() const { return !state.activity.empty(); }
  // Whether the last frame is recent and the state says that the rank waits for others.
  bool waits(TimePoint now) const {
    return !state.waits_for.empty() && now - received < 4 * kRankStatePeriod;
  }
  // "last frame received 0.3 s ago, testing", with `by` behind the time. `names` are by rank.
  std::string text(TimePoint now, std::span<const std::string> names,
                   const std::string& by = "") const;
};

}  // namespace paddle::collective
