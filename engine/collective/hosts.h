// The ranks of a group by their machines, for sums in two levels: on each host first, then between
// hosts. Hosts are in the order of their first ranks, and ranks ascend on each of them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace paddle::collective {

class Hosts {
 public:
  // A number of each rank's machine, by rank.
  explicit Hosts(std::span<const std::uint64_t> machines);

  std::uint32_t count() const { return static_cast<std::uint32_t>(ranks_.size()); }
  std::span<const std::uint32_t> ranks(std::uint32_t host) const { return ranks_[host]; }
  // Of all hosts, in their order. None where is no owner's place.
  std::span<const std::uint32_t> in_place(std::uint32_t place) const {
    return place < places_ ? in_place_[place] : std::span<const std::uint32_t>();
  }
  std::uint32_t host_of(std::uint32_t rank) const { return seats_[rank].host; }
  // Where a rank comes on its host, from 0.
  std::uint32_t place_of(std::uint32_t rank) const { return seats_[rank].place; }
  // As many as the smallest host has ranks. Those in these places own slices, the others none.
  std::uint32_t places() const { return places_; }
  bool is_owner(std::uint32_t rank) const { return place_of(rank) < places_; }
  // On one host, or with one rank on each, there is nothing to be gained from two levels.
  bool have_two_levels() const { return count() > 1 && count() < seats_.size(); }

 private:
  struct Seat {
    std::uint32_t host = 0;
    std::uint32_t place = 0;
  };
  std::vector<Seat> seats_;                           // by rank
  std::vector<std::vector<std::uint32_t>> ranks_;     // by host
  std::vector<std::vector<std::uint32_t>> in_place_;  // by place
  std::uint32_t places_ = 0;
};

}  // namespace paddle::collective
