// local_sgd in a group: each rank trains a copy of its own, and the ranks set all copies to their
// mean once in `update_frequency` batches.
//
//    rank 0   batch, batch, batch --.  moves   .-- batch, batch, batch --.
//    rank 1   batch, batch, batch --+- summed -+-- batch, batch, batch --+- ...
//    rank 2   batch, batch, batch --'  up      '-- batch, batch, batch --'
//
// Between two rounds no rank waits for another. A round is a step of the group (group_steps.h)
// whose gradients are the moves of the copies (replica.h), weighted by samples, and whose learning
// rate is 1, since each move has the learning rates of its batches in it.
#pragma once

#include <span>
#include <vector>

#include "engine/group/host_ranks.h"
#include "engine/strategy/replica.h"

namespace paddle::strategy {

// The copy of one rank, and its part of the next round.
class LocalRounds {
 public:
  // `set` and `ranks` outlive it.
  LocalRounds(const wire::ParameterSet& set, const HostRanks& ranks)
      : ranks_(ranks), replica_(set, 1), window_(set) {}
  // Memory for an element, in floats: the copy, the group's last values, the optimizer's state, a
  // move, the move that is pushed, and the values of a round.
  static std::uint64_t floats_of_element(const wire::ParameterSet& set);

  // Reads the values of the copy, which begins with the group's values.
  void pull(std::span<client::DenseParameter> parameters);
  // Makes a batch's step on the copy. `begun` is the job's progress before the pass.
  void add(const client::PushTotals& totals, const optim::Progress& begun,
           std::span<client::DenseParameter> parameters);
  bool is_round_due() const { return window_.is_full(); }
  bool is_empty() const { return window_.is_empty(); }
  client::PushTotals take_totals() { return window_.take(); }
  std::vector<client::DenseParameter> take_moves() { return replica_.take_moves(); }
  // Called after a round of the group: the copy becomes the mean.
  void on_round() { replica_.reset(group_values()); }
  void copy_to(std::span<client::DenseParameter> parameters) const { replica_.copy_to(parameters); }
  void end_pass(client::PassEnd end) { window_.end_pass(end); }

 private:
  std::vector<client::DenseParameter> group_values() const;

  const HostRanks& ranks_;
  DenseReplica replica_;
  ReplicaWindow window_;
};

}  // namespace paddle::strategy
