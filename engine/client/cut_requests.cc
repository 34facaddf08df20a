#include "engine/client/cut_requests.h"

#include <algorithm>
#include <limits>

namespace paddle::client {

void note_cuts(std::span<const ClientLane* const> in_rounds, wire::PushPart& part) {
  if (in_rounds.empty()) return;
  part.set_cut(in_rounds.front()->cut_asked());
  std::uint64_t whole = std::numeric_limits<std::uint64_t>::max();
  for (const ClientLane* const lane : in_rounds) whole = std::min(whole, lane->whole_cut());
  part.set_whole_cut(whole);
}

}  // namespace paddle::client
