// A trainer's own copy of the parameters, which it updates alone between two pushes (geo,
// local_sgd). Passive: does no I/O.
//
// For one parameter, x is the copy, and y is what the trainer knows of the common values, on shards
// or in its group, including its own pushes. A push carries the move -(x - y) * scale, which is
// subtracted there (ParameterSpec.is_delta); the answer moves x by what the other trainers did.
#pragma once

#include <deque>
#include <unordered_map>

#include "engine/client/batch_parameters.h"
#include "engine/client/parameter_client.h"
#include "engine/math/optimizer.h"
#include "engine/math/schedule.h"
#include "engine/table/row_notes.h"

namespace paddle::strategy {

class DenseReplica {
 public:
  // `scale` is that of a pushed move: 1 / trainers if shards add moves up.
  DenseReplica(const wire::ParameterSet& set, float scale);

  bool is_empty() const { return all_.empty() || all_.front().x.empty(); }

  // Sets x and y to the values, and drops moves that are not answered.
  void reset(std::span<const client::DenseParameter> values);
  // Makes one step of the optimizer on x, then copies x to the values. `parameters` are all dense
  // parameters, in the order of the set.
  void update(float learning_rate, std::span<client::DenseParameter> parameters);
  // Returns the move since the last push.
  std::vector<client::DenseParameter> take_moves();
  // Updates x and y from the shards' values, to which all but the newest `unseen` pushes were
  // applied.
  void on_values(std::span<const client::DenseParameter> values, std::size_t unseen);
  // Copies x to the values.
  void copy_to(std::span<client::DenseParameter> parameters) const;

 private:
  struct One {
    std::uint32_t parameter;
    optim::UpdateRule rule;
    LargeArray<float> x, y;
    std::vector<float> state;
    std::deque<LargeArray<float>> moves;  // pushed, perhaps not in any answer yet
  };
  float scale_;
  std::uint64_t count_ = 0;
  std::vector<One> all_;
};

// The rows of one sparse table that the trainer works on. A row is fetched when a batch needs it
// for the first time after a push; its optimizer state stays in the trainer.
class RowReplica {
 public:
  RowReplica(const wire::ParameterSet& set, std::uint32_t parameter, float scale);

  std::vector<std::uint64_t> missing(std::span<const std::uint64_t> ids) const;
  void put(const client::SparseRows& fetched);
  // Reads the values of rows that were fetched.
  void read(client::SparseRows& rows) const;
  void update(float learning_rate, const client::SparseRows& rows);
  // The moves of all rows fetched since the last call, by ascending id; the rows must be fetched
  // again afterwards.
  client::SparseRows take_moves();

 private:
  struct Row {
    std::uint64_t window = 0;  // window in which it was fetched
    std::uint64_t count = 0;
    std::vector<float> x, y, state, notes;
  };
  const Row* fresh(std::uint64_t id) const;

  std::uint32_t parameter_;
  std::size_t width_;
  float scale_;
  parameter::RowNotes notes_;
  bool keeps_state_;
  optim::UpdateRule rule_;
  std::uint64_t window_ = 1;
  std::unordered_map<std::uint64_t, Row> rows_;
  std::vector<std::uint64_t> ids_;  // fetched in this window
};

// A trainer's position in its pass, and in the window of batches until the next push.
class ReplicaWindow {
 public:
  // `set` outlives it.
  explicit ReplicaWindow(const wire::ParameterSet& set) : set_(set) {}

  // Counts a batch and returns its learning rate; `begun` is the job's progress before the pass.
  // The other trainers are assumed to be as far in the pass as this one, so that no answer is
  // awaited, and the same batches give the same bits.
  float add(const client::PushTotals& totals, const optim::Progress& begun);
  bool is_full() const { return totals_.batches >= set_.update_frequency(); }
  bool is_empty() const { return totals_.batches == 0; }
  client::PushTotals take();
  void end_pass(client::PassEnd end);

 private:
  const wire::ParameterSet& set_;
  std::uint64_t pass_samples_ = 0;  // by this trainer
  client::PushTotals totals_{0, 0, 0};
};

}  // namespace paddle::strategy
