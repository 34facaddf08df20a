// Trainers that wait for a shard's answer, and the trainers that they wait for. A waiting trainer
// receives notices. The supervisor receives the ids of the trainers that are waited for.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "engine/pserver/shard_state.h"

namespace paddle::pserver {

// Sends a notice to every waiting trainer whose last one is kNoticePeriod old; it names the
// trainers that this one waits for.
void send_due_notices(TimePoint now, ShardState& state, std::vector<net::Outgoing>& out);

struct Awaited {
  TimePoint since;
  std::vector<std::uint32_t> trainers;
};
// The trainers that the longest waiting trainer waits for; std::nullopt if none waits.
std::optional<Awaited> awaited(const ShardState& state);

}  // namespace paddle::pserver
