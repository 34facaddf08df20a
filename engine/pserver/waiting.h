// Trainers that wait, and those whom they wait for: notices to the ones, names of the others for
// the supervisor.
#pragma once

#include <optional>

#include "engine/pserver/shard_state.h"

namespace paddle::pserver {

struct Awaited {
  TimePoint since;
  std::vector<std::uint32_t> trainers;
};
// The trainers that the longest waiting one waits for; nothing while none waits.
std::optional<Awaited> awaited(const ShardState& state);

// Tells every trainer whose last notice is kNoticePeriod old whom it waits for.
void send_due_notices(TimePoint now, ShardState& state, std::vector<net::Outgoing>& out);

}  // namespace paddle::pserver
