#include "engine/client/cut_requests.h"

#include <algorithm>

namespace paddle::client {

void note_cuts(std::span<const ClientLane* const> in_rounds, wire::PushPart& part) {
  if (in_rounds.empty()) return;
  const ClientLane& leading = *in_rounds.front();
  part.set_cut(leading.cut_asked());
  // Shards that name different ones need not have those of the others.
  const auto is_other = [&](const ClientLane* lane) {
    return lane->whole_cut() != leading.whole_cut();
  };
  if (std::ranges::none_of(in_rounds, is_other)) part.set_whole_cut(leading.whole_cut());
}

}  // namespace paddle::client
