// The lanes of a trainer that joins a job, each somewhere in the same sequence of pushes, pauses
// and ends of passes: an earlier life of the trainer may have died between two of them. Passive.
#pragma once

#include <compare>
#include <cstdint>
#include <vector>

#include "proto/wire.pb.h"

namespace paddle::client {

// After so many passes, pauses of the current pass, and batches of it. Later positions are greater.
struct LanePosition {
  std::uint64_t passes = 0;
  std::uint64_t pauses = 0;
  std::uint64_t batches = 0;

  friend auto operator<=>(const LanePosition&, const LanePosition&) = default;
};
// Of the trainer, as a shard tells it.
LanePosition position_of(const wire::Position& position, std::uint32_t trainer);

// A trainer goes on from its earliest lane, and leaves out the lanes that already have a push.
class CatchUp {
 public:
  // `in_rounds`: the shard applies pushes of all trainers together.
  void add(LanePosition lane, bool in_rounds) { lanes_.push_back({lane, in_rounds}); }
  void add(const CatchUp& other) {
    lanes_.insert(lanes_.end(), other.lanes_.begin(), other.lanes_.end());
  }

  LanePosition start() const;     // of the earliest lane; without lanes, the greatest position
  LanePosition furthest() const;  // of the last lane; without lanes, the begin
  // Lanes in rounds differ: some have applied a push that the others still wait for, and only the
  // same bits may follow.
  bool is_split() const;
  bool is_behind(LanePosition now) const;  // some lane is further than `now`
  bool lacks(std::size_t lane, LanePosition push) const { return lanes_[lane].position < push; }
  void on_push(LanePosition push);  // every lane that lacked it has it now

 private:
  struct Lane {
    LanePosition position;
    bool in_rounds = false;
  };
  std::vector<Lane> lanes_;
};

}  // namespace paddle::client
