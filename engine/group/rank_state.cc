#include "engine/group/rank_state.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/text.h"
#include "proto/collective.pb.h"

namespace paddle::collective {

std::string encode(const RankState& state) {
  wire::RankState message;
  message.set_activity(state.activity);
  const std::size_t count = std::min(state.waits_for.size(), kRanksNamed);
  for (std::size_t i = 0; i < count; ++i) message.add_waits_for(state.waits_for[i]);
  return message.SerializeAsString();
}

std::optional<RankState> decode_rank_state(std::string_view head, std::uint32_t ranks) {
  wire::RankState message;
  if (!message.ParseFromArray(head.data(), static_cast<int>(head.size()))) return std::nullopt;
  RankState state{.activity = escape_control(message.activity().substr(0, kActivityBytesMax))};
  for (const std::uint32_t rank : message.waits_for()) {
    if (rank < ranks && state.waits_for.size() < kRanksNamed) state.waits_for.push_back(rank);
  }
  return state;
}

std::string LastRankState::text(TimePoint now, std::span<const std::string> names,
                                const std::string& by) const {
  std::string doing = is_busy() ? ", " + state.activity : "";
  if (waits(now)) {
    doing += ", waits for " + names[state.waits_for.front()];
    if (state.waits_for.size() > 1) doing += " and others";
  }
  if (received == TimePoint{}) return "no frame received yet" + by + doing;
  return fmt::format("last frame received {:.1f} s ago{}{}",
                     std::chrono::duration<double>(now - received).count(), by, doing);
}

}  // namespace paddle::collective
