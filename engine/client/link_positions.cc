#include "engine/client/link_positions.h"

#include <algorithm>
#include <limits>

namespace paddle::client {

LanePosition position_of(const wire::Position& position, std::uint32_t trainer) {
  const auto id = static_cast<int>(trainer);
  return {position.passes_finished(), position.pauses(),
          id < position.pass_batches_size() ? position.pass_batches(id) : 0};
}

LanePosition LinkPositions::start() const {
  LanePosition earliest{std::numeric_limits<std::uint64_t>::max(), 0, 0};
  for (const Lane& lane : lanes_) earliest = std::min(earliest, lane.position);
  return earliest;
}

LanePosition LinkPositions::furthest() const {
  LanePosition furthest;
  for (const Lane& lane : lanes_) furthest = std::max(furthest, lane.position);
  return furthest;
}

bool LinkPositions::is_split() const {
  const Lane* earliest = nullptr;
  for (const Lane& lane : lanes_) {
    if (!lane.in_rounds) continue;
    if (earliest == nullptr || lane.position < earliest->position) earliest = &lane;
  }
  // A trainer ends a pass, or pauses in it, only after every lane has the pushes before that. So a
  // lane in a later pass or pause has no push that the earliest lane lacks.
  return std::ranges::any_of(lanes_, [&](const Lane& lane) {
    return lane.in_rounds && lane.position.passes == earliest->position.passes &&
           lane.position.pauses == earliest->position.pauses &&
           lane.position.batches != earliest->position.batches;
  });
}

bool LinkPositions::is_behind(LanePosition now) const {
  return std::ranges::any_of(lanes_, [&](const Lane& lane) { return lane.position > now; });
}

void LinkPositions::on_push(LanePosition push) {
  for (Lane& lane : lanes_) lane.position = std::max(lane.position, push);
}

}  // namespace paddle::client
