// A strategy's half on a shard: which of the complete pushes are applied next, and how. The shard
// stores, merges and applies the pushes; a policy has no state.
#pragma once

#include <functional>
#include <memory>

#include "engine/math/schedule.h"
#include "engine/pserver/membership.h"

namespace paddle::pserver {

// The trainers that other trainers wait for, and what these still have to do: " to push step 7".
struct Blockers {
  std::function<bool(const Trainer&)> is_one;
  std::string debt;
};

class UpdatePolicy {
 public:
  virtual ~UpdatePolicy() = default;

  // Whether trainers go in step: pushes and pulls name the round, and the job cannot go on without
  // a lost trainer.
  virtual bool has_rounds() const = 0;
  // Whether a complete push may wait for pushes of other trainers.
  virtual bool holds_pushes() const = 0;
  // The trainers, by id, whose complete pushes make one update now; empty: none yet.
  virtual std::vector<Trainer*> next_update(Membership& membership) const = 0;
  // The trainers that a push or a pull of `step` waits for now.
  virtual Blockers blockers(const Membership& membership, std::uint64_t step) const = 0;
  // Whether a push that was computed `lag` updates ago is dropped.
  virtual bool discards(std::uint64_t /*lag*/) const { return false; }
  virtual float learning_rate(const wire::Optimizer& optimizer,
                              const optim::Progress& progress) const {
    return optim::learning_rate(optimizer, progress);
  }
};

// The policy for the dense or for the sparse parameters of a valid set.
using UpdatePolicyFactory = std::unique_ptr<UpdatePolicy> (*)(const wire::ParameterSet& set,
                                                              bool is_sparse);

}  // namespace paddle::pserver
