// The cuts that shards go back to when some of them have lost their parameters with their process.
// Passive.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "proto/wire.pb.h"

namespace paddle::client {

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
