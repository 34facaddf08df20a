// The door of a shard: which trainers may join. The first one brings the parameter set, which every
// other must have too.
#pragma once

#include "engine/pserver/shard_state.h"

namespace paddle::pserver {

class Admission {
 public:
  explicit Admission(ShardState& state) : state_(state) {}

  // Makes the sender of a Join a member, and reads its head; a shard that has failed lets nobody
  // in.
  Refused admit(net::PeerId from, const Frame& frame, const Refused& failure, wire::Join& message);

 private:
  Refused check(net::PeerId from, std::uint32_t trainer, const wire::Join& message,
                const wire::ParameterSet& set) const;

  ShardState& state_;
};

}  // namespace paddle::pserver
