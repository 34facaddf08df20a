// Paths of parameters that a trainer updates in a copy of its own: every update_frequency batches
// it pushes the copy's move. geo and local_sgd differ in how a push is exchanged with the shards.
#pragma once

#include "engine/client/paths.h"
#include "engine/optim/schedule.h"
#include "engine/strategy/replica.h"

namespace paddle::strategy {

// A trainer's position in its pass, and in the window of batches up to the next push.
class ReplicaWindow {
 public:
  // The set outlives it.
  explicit ReplicaWindow(const wire::ParameterSet& set) : set_(set) {}

  // Counts a batch and returns its learning rate in a job that had `begun` so before the pass. The
  // other trainers are assumed to be as far in the pass as this one: no answer is awaited, and the
  // same batches give the same bits.
  float add(const client::PushTotals& totals, const optim::Progress& begun);
  bool is_full() const { return totals_.batches >= set_.update_frequency(); }
  bool is_empty() const { return totals_.batches == 0; }
  client::PushTotals take();
  void end_pass(client::PassEnd end);

 private:
  const wire::ParameterSet& set_;
  std::uint64_t pass_samples_ = 0;  // of this trainer
  client::PushTotals totals_{0, 0, 0};
};

class ReplicaDensePath : public client::DensePath {
 public:
  ReplicaDensePath(client::ShardChannels& shards, float scale, float elastic = 0)
      : Path(shards), replica_(shards.parameters(), scale, elastic), window_(shards.parameters()) {}

  Status pull(std::span<client::DenseParameter> parameters) override;
  Status push(const client::PushTotals& totals,
              std::span<client::DenseParameter> parameters) override;
  Status end_pass(client::PassEnd end) override;

 protected:
  // Pushes moves, and takes the values that come back into the replica.
  virtual Status exchange(const client::PushTotals& totals,
                          std::vector<client::DenseParameter> moves) = 0;

  DenseReplica replica_;

 private:
  ReplicaWindow window_;
};

// Rows are fetched when a batch first names them after a push, and only those are pushed.
class ReplicaRowsPath : public client::RowsPath {
 public:
  ReplicaRowsPath(client::ShardChannels& shards, float scale);

  Status pull(std::span<client::SparseRows> rows) override;
  Status push(const client::PushTotals& totals, std::span<client::SparseRows> rows) override;
  Status end_pass(client::PassEnd end) override;

 protected:
  virtual Status fetch(std::span<client::SparseRows> rows) = 0;
  virtual Status exchange(const client::PushTotals& totals,
                          std::span<const client::SparseRows> moves) = 0;

 private:
  Status push_window();

  std::vector<RowReplica> tables_;
  ReplicaWindow window_;
};

}  // namespace paddle::strategy
