// The parameters and gradients of a simulated job. Each port has a ledger of its own, in which a
// batch adds one to its cell, and dense ports have values that depend on every push and its order.
#pragma once

#include "engine/client/batch_parameters.h"
#include "engine/client/dense_layout.h"
#include "tests/sim/options.h"

namespace paddle::sim {

struct Gradients {
  std::uint64_t samples = 0;
  std::uint64_t batches = 0;
  std::vector<client::DenseParameter> dense;
  client::SparseRows rows;
};

class Model {
 public:
  explicit Model(const ClusterOptions& options);

  const wire::ParameterSet& set() const { return set_; }
  const client::DenseLayout& layout() const { return layout_; }
  std::uint32_t dense_shards() const { return pservers_; }
  std::uint32_t shards() const { return 2 * pservers_; }  // dense, then sparse
  bool is_sparse(std::uint32_t shard) const { return shard >= pservers_; }
  std::uint32_t rows_parameter() const { return 2 * pservers_; }
  // Shards of this kind, or any, take the pushes of all trainers together.
  bool in_rounds(std::uint32_t shard) const {
    return is_sparse(shard) ? rows_in_rounds_ : dense_in_rounds_;
  }
  bool has_rounds() const { return dense_in_rounds_ || rows_in_rounds_; }
  bool has_windows() const { return has_windows_; }

  std::uint32_t batches(std::uint32_t trainer) const { return batches_[trainer]; }
  std::uint64_t batches_of_job(std::uint32_t trainer) const {
    return std::uint64_t{passes_} * batches_[trainer];
  }
  std::uint64_t cells() const { return passes_of_.size(); }
  std::uint64_t cell(std::uint32_t trainer, std::uint64_t pass, std::uint64_t batch) const;
  std::uint64_t pass_of(std::uint64_t cell) const { return passes_of_[cell]; }
  // Batches of all trainers in the first `passes` passes.
  std::uint64_t cells_before(std::uint64_t passes) const { return passes * batches_of_pass_; }
  // The cells that a round's commit fills, in order; step 1 is the first round.
  const std::vector<std::uint64_t>& cells_of_step(std::uint64_t step) const;
  std::uint64_t steps() const { return cells_of_step_.size(); }

  // The row of a cell on a sparse port, and all rows of that port; the last one is of no cell, and
  // changes with every push.
  std::span<const std::uint64_t> row_ids(std::uint32_t shard) const {
    return std::span(row_ids_[shard - pservers_]).first(cells());
  }
  std::span<const std::uint64_t> shared_row(std::uint32_t shard) const {
    return std::span(row_ids_[shard - pservers_]).last(1);
  }
  // `values` are those of each dense port, as last seen by the trainer.
  Gradients gradients(std::uint32_t trainer, std::uint64_t pass, std::uint64_t batch,
                      std::span<const std::vector<float>> values) const;
  // Elements of a dense port: its ledger and its shared values.
  std::span<const float> ledger(std::uint32_t shard, std::span<const float> values) const;
  std::span<const float> shared(std::uint32_t shard, std::span<const float> values) const;

 private:
  void create_set(const ClusterOptions& options);
  void create_steps(std::uint32_t passes);
  std::span<const float> piece(std::uint32_t shard, std::uint32_t parameter,
                               std::span<const float> values) const;

  std::vector<std::uint32_t> batches_;
  std::uint32_t pservers_;
  std::uint32_t passes_;
  bool dense_in_rounds_;
  bool rows_in_rounds_;
  bool has_windows_;
  std::uint64_t batches_of_pass_ = 0;
  std::vector<std::uint64_t> first_cells_;  // by trainer
  std::vector<std::uint64_t> passes_of_;    // by cell
  std::vector<std::vector<std::uint64_t>> cells_of_step_;
  std::vector<std::vector<std::uint64_t>> row_ids_;  // by sparse port and cell, and one more
  wire::ParameterSet set_;
  client::DenseLayout layout_;
};

}  // namespace paddle::sim
