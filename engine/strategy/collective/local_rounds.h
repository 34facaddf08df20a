// A rank's own copy of the dense parameters, which it updates by itself between two rounds of the
// group: local_sgd without pservers. A round pushes the copy's move, as to a shard (replica.h).
#pragma once

#include "engine/strategy/collective/host_ranks.h"
#include "engine/strategy/replica_path.h"

namespace paddle::strategy {

class LocalRounds {
 public:
  // Both outlive it.
  LocalRounds(const wire::ParameterSet& set, const HostRanks& ranks);
  // Whether the set's dense parameters are trained so.
  static bool are_of(const wire::ParameterSet& set);
  // Of an element, at most: the copy and what it knows of the group, its optimizer's state, a move
  // and the one that is pushed, and the values of a round.
  static std::uint64_t floats_of_element(const wire::ParameterSet& set);

  // The values of the copy, which begins as that of the group.
  void pull(std::span<client::DenseParameter> parameters);
  // Takes a batch's step on the copy; the job had `begun` so before the pass.
  void add(const client::PushTotals& totals, const optim::Progress& begun,
           std::span<client::DenseParameter> parameters);
  bool is_round_due() const { return window_.is_full(); }
  bool is_empty() const { return window_.is_empty(); }
  client::PushTotals take_totals() { return window_.take(); }
  std::vector<client::DenseParameter> take_moves() { return replica_.take_moves(); }
  // After a round of the group: the copy is the mean, or with elastic averaging goes on by itself.
  void on_round();
  void copy_to(std::span<client::DenseParameter> parameters) const { replica_.copy_to(parameters); }
  void end_pass(client::PassEnd end) { window_.end_pass(end); }

 private:
  std::vector<client::DenseParameter> group_values() const;

  const HostRanks& ranks_;
  bool is_elastic_;
  DenseReplica replica_;
  ReplicaWindow window_;
};

}  // namespace paddle::strategy
