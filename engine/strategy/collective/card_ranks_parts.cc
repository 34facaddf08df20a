// Parts of the parameters on cards that ranks keep in their cuts.
#include <algorithm>

#include "engine/strategy/collective/card_ranks.h"

namespace paddle::strategy {

ElementRange CardRanks::part(std::uint32_t rank) const {
  const std::uint64_t elements = layout_.elements();
  return {elements * rank / group_.size(), elements * (rank + 1) / group_.size()};
}

Status CardRanks::in_turns(ElementRange range,
                           const std::function<Status(ElementRange)>& use) const {
  for (std::uint64_t at = range.begin; at < range.end; at += room_floats_) {
    PADDLE_TRY_STATUS(use({at, std::min(range.end, at + room_floats_)}));
  }
  return {};
}

Status CardRanks::read_part(const Put& put) {
  PADDLE_TRY_STATUS(finish());
  for (std::uint32_t number = 0; number < planes(); ++number) {
    const auto read = [&](ElementRange some) {
      device_.download(options_.lane.stream,
                       reinterpret_cast<const std::byte*>(plane(number) + some.begin),
                       reinterpret_cast<std::byte*>(room_.data()), some.size() * sizeof(float));
      const Status there = wait();
      return there ? put({room_.data(), some.size()}) : there;
    };
    PADDLE_TRY_STATUS(in_turns(part(group_.rank()), read));
  }
  return {};
}

Status CardRanks::restore_parts(const Take& take, std::span<const std::uint64_t> update_counts) {
  PADDLE_TRY_STATUS(finish());
  std::vector<float> values;
  for (std::uint32_t number = 0; number < planes(); ++number) {
    for (std::uint32_t rank = 0; rank < group_.size(); ++rank) {
      const auto restore = [&](ElementRange some) {
        values.resize(some.size());
        Status done = rank == group_.rank() ? take(values) : Status();
        const auto bytes = std::as_writable_bytes(std::span(values));
        if (done) done = group_.broadcast(rank, bytes).wait();
        return done ? write(plane(number) + some.begin, values) : done;
      };
      PADDLE_TRY_STATUS(in_turns(part(rank), restore));
    }
  }
  update_counts_.assign(update_counts.begin(), update_counts.end());
  return {};
}

}  // namespace paddle::strategy
