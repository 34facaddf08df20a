// Assembly of pushes: takes the parts of a trainer's push in order, and checks the complete push,
// so that applying it is not refused.
#pragma once

#include "engine/pserver/shard_state.h"

namespace paddle::pserver {

class PushAssembly {
 public:
  explicit PushAssembly(ShardState& state) : state_(state) {}

  // Takes a part of a push that is not applied yet. The answer is sent at once while parts are
  // missing; the trainer of a complete push waits for its update.
  Refused take(const Request& request, const wire::PushDense& message);
  Refused take(const Request& request, const wire::PushRows& message);

 private:
  Refused check_part(const Request& request, const wire::PushPart& part);
  Refused check_totals(const Request& request, const wire::PushPart& part);
  std::uint64_t samples_beside(const Trainer& trainer) const;
  Refused check_node(const Request& request, const wire::PushDense& message) const;
  Refused check_memory(const Request& request) const;
  // Makes trainer.push ready for the part. Sets `is_repeat` if the part was taken before, and
  // answers it then.
  Refused begin(const Request& request, const wire::PushPart& part, bool& is_repeat);
  Refused finish(const Request& request);
  Refused check_values(std::uint32_t trainer, const Push& push);

  ShardState& state_;
  // Samples of all pushes that began here, but at most kCounterMax + 1. The pushes that wait have
  // no more samples than this.
  std::uint64_t begun_ = 0;
  std::vector<float> scratch_;
};

}  // namespace paddle::pserver
