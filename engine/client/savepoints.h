// A trainer's part in the savepoints of shards: it requests them from the shards in rounds, and
// after a loss chooses the savepoints that shards go back to. Passive: does no I/O.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "engine/client/lane.h"
#include "proto/wire.pb.h"

namespace paddle::client {

// Fills the fields about savepoints of `part`, the next push, from the latest answers on the lanes
// to the shards in rounds. If the first of these lanes announced a savepoint, the push requests it,
// so that all shards make it after the same round. If all lanes report the same newest savepoint,
// the push names it, so that shards may delete what is older.
void note_savepoints(std::span<const ClientLane* const> in_rounds, wire::PushPart& part);

// Chooses the savepoints that shards go back to after the processes of some of them ended and their
// parameters were lost.
class RollbackPlan {
 public:
  // Adds the next shard, in shard order, from its answer to Join.
  void add(const wire::Position& position);

  bool all_run() const;
  bool none_runs() const;
  // The savepoint that each shard goes back to, by shard, with nothing for a shard that keeps its
  // parameters. std::nullopt if there is no savepoint for a shard that needs one. If a shard in
  // rounds lost its parameters, all shards in rounds go back to the newest savepoint that each of
  // them has. Any other shard goes back only if its own parameters were lost, to its newest
  // savepoint: trainers leave out pushes that such a shard has applied already.
  std::optional<std::vector<std::optional<std::uint64_t>>> savepoints() const;

 private:
  struct Shard {
    bool runs = false;
    bool in_rounds = false;
    std::vector<std::uint64_t> savepoints;  // ascending
  };
  std::optional<std::uint64_t> common_savepoint() const;
  std::vector<Shard> shards_;
};

}  // namespace paddle::client
