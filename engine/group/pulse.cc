#include "engine/group/pulse.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/text.h"
#include "proto/collective.pb.h"

namespace paddle::collective {

std::string encode(const Pulse& pulse) {
  wire::GroupPulse message;
  message.set_activity(pulse.activity);
  const std::size_t count = std::min(pulse.waits_for.size(), kRanksNamed);
  for (std::size_t i = 0; i < count; ++i) message.add_waits_for(pulse.waits_for[i]);
  return message.SerializeAsString();
}

std::optional<Pulse> decode_pulse(std::string_view head, std::uint32_t ranks) {
  wire::GroupPulse message;
  if (!message.ParseFromArray(head.data(), static_cast<int>(head.size()))) return std::nullopt;
  Pulse pulse{.activity = escape_control(message.activity().substr(0, kActivityBytesMax))};
  for (const std::uint32_t rank : message.waits_for()) {
    if (rank < ranks && pulse.waits_for.size() < kRanksNamed) pulse.waits_for.push_back(rank);
  }
  return pulse;
}

std::string LastWord::text(TimePoint now, std::span<const std::string> names,
                           const std::string& by) const {
  std::string doing = is_busy() ? ", " + pulse.activity : "";
  if (waits(now)) {
    doing += ", waits for " + names[pulse.waits_for.front()];
    if (pulse.waits_for.size() > 1) doing += " and others";
  }
  if (received == TimePoint{}) return "no frame received yet" + by + doing;
  return fmt::format("last frame received {:.1f} s ago{}{}",
                     std::chrono::duration<double>(now - received).count(), by, doing);
}

}  // namespace paddle::collective
