#include "engine/collective/hosts.h"

#include <algorithm>

namespace paddle::collective {

Hosts::Hosts(std::span<const std::uint64_t> machines) {
  for (std::uint32_t rank = 0; rank < machines.size(); ++rank) {
    const auto first =
        static_cast<std::size_t>(std::ranges::find(machines, machines[rank]) - machines.begin());
    if (first == rank) ranks_.emplace_back();
    const std::uint32_t host = first == rank ? count() - 1 : seats_[first].host;
    seats_.push_back({host, static_cast<std::uint32_t>(ranks_[host].size())});
    ranks_[host].push_back(rank);
  }
  if (ranks_.empty()) return;
  const auto smallest =
      std::ranges::min_element(ranks_, {}, [](const auto& r) { return r.size(); });
  places_ = static_cast<std::uint32_t>(smallest->size());
  in_place_.resize(places_);
  for (const auto& ranks : ranks_) {
    for (std::uint32_t place = 0; place < places_; ++place) {
      in_place_[place].push_back(ranks[place]);
    }
  }
}

}  // namespace paddle::collective
