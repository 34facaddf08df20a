// Application of complete pushes to the parameters, as the strategy's policy allows, and the
// answers to their trainers.
#pragma once

#include "engine/pserver/shard_state.h"

namespace paddle::pserver {

class Updates {
 public:
  explicit Updates(ShardState& state) : state_(state) {}

  // Makes the next update and answers its pushes; false when the policy allows none, or when the
  // update leaves a value that is not finite.
  bool apply_next(std::vector<net::Outgoing>& out);
  // Why the parameters are unusable. The pushes of the failed update are not answered.
  const Refused& failure() const { return failure_; }
  // Answers an applied push, with the current values if it carried a gradient.
  void reply_pushed(Trainer& trainer, std::uint64_t request, bool is_discarded, bool carries_dense,
                    std::vector<net::Outgoing>& out);

 private:
  // Returns the name of the first parameter that is not finite after the update, or "".
  std::string apply(float learning_rate, std::span<const Push* const> pushes);
  void count(Trainer& trainer, std::uint64_t lag, bool is_discarded);

  ShardState& state_;
  Refused failure_;
  std::vector<float> scratch_;
  std::vector<float> part_scratch_;
};

}  // namespace paddle::pserver
