// The positions of a trainer's lanes when it joins a job. All lanes receive the same sequence of
// pushes, pauses and ends of passes, but an earlier process of the trainer may have died between
// two lanes, so their positions may differ. Passive: does no I/O.
#pragma once

#include <compare>
#include <cstdint>
#include <vector>

#include "proto/wire.pb.h"

namespace paddle::client {

// A position in that sequence: finished passes, pauses of the current pass, and batches of it.
// Later positions compare greater.
struct LanePosition {
  std::uint64_t passes = 0;
  std::uint64_t pauses = 0;
  std::uint64_t batches = 0;

  friend auto operator<=>(const LanePosition&, const LanePosition&) = default;
};
// The position of this trainer that the shard reports.
LanePosition position_of(const wire::Position& position, std::uint32_t trainer);

// Positions of all lanes. A trainer continues from its earliest lane, and leaves out of a push the
// lanes that have it already.
class LinkPositions {
 public:
  // `in_rounds`: the shard applies pushes of all trainers together.
  void add(LanePosition lane, bool in_rounds) { lanes_.push_back({lane, in_rounds}); }
  void add(const LinkPositions& other) {
    lanes_.insert(lanes_.end(), other.lanes_.begin(), other.lanes_.end());
  }

  LanePosition start() const;     // position of the earliest lane; the greatest one without lanes
  LanePosition furthest() const;  // position of the last lane; the smallest one without lanes
  // Whether lanes in rounds differ: some shards have applied a push that others still wait for, so
  // the trainer must send these the same bits again.
  bool is_split() const;
  bool is_behind(LanePosition now) const;  // some lane is further than `now`
  bool lacks(std::size_t lane, LanePosition push) const { return lanes_[lane].position < push; }
  void on_push(LanePosition push);  // raises all lanes to this position at least

 private:
  struct Lane {
    LanePosition position;
    bool in_rounds = false;
  };
  std::vector<Lane> lanes_;
};

}  // namespace paddle::client
