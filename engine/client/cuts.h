// A trainer's share in the cuts of shards: it asks those in rounds for them, and chooses those that
// they go back to. Passive.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "engine/client/lane.h"
#include "proto/wire.pb.h"

namespace paddle::client {

// All shards in rounds make a cut after the push that follows its announcement, and forget what
// they can no longer need. Says in a push what the lanes to the shards in rounds, the first of
// which announces cuts, have answered last.
void note_cuts(std::span<const ClientLane* const> in_rounds, wire::PushPart& part);

// The cuts that shards go back to when some of them have lost their parameters with their process.
class WayBack {
 public:
  // Of the shards in order, as they answer Join.
  void add(const wire::Position& position);

  bool all_run() const;
  bool none_runs() const;
  // The cut that each shard goes back to, none for one that stays as it is; nothing when there is
  // no way. Shards in rounds all go back to the newest that each of them has. Others keep what they
  // have: trainers leave out what such a shard has already.
  std::optional<std::vector<std::optional<std::uint64_t>>> cuts() const;

 private:
  struct Shard {
    bool runs = false;
    bool in_rounds = false;
    std::vector<std::uint64_t> cuts;  // ascending
  };
  std::optional<std::uint64_t> common_cut() const;
  std::vector<Shard> shards_;
};

}  // namespace paddle::client
