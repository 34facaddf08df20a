// The network with this trainer's copy of the parameters: the computation between pull and push.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/pool.h"
#include "engine/client/parameter_client.h"
#include "engine/config/job_config.h"
#include "engine/nn/network/network.h"
#include "engine/trainer/batches/batch_notes.h"
#include "engine/trainer/compute/card.h"
#include "engine/trainer/compute/executor.h"
#include "engine/trainer/metrics.h"

namespace paddle::trainer {

// The machine that a model computes on.
struct Machine {
  bool has_bfloat16 = kernels::can_compute(kernels::Compute::kBfloat16);  // its CPU
  std::string selected_gpus = trainer::selected_gpus();
};

class Model {
 public:
  // kUsage: the layers do not fit together, or this CPU lacks the job's arithmetic. Without a GPU
  // that the job asks for: as open_card().
  static Result<Model> build(const config::JobConfig& job, const Machine& machine = {});

  // "4 threads", or the name of a GPU.
  const std::string& computes_on() const { return computes_on_; }
  // Of a GPU, where a client may keep dense parameters.
  std::optional<device::Lane> lane() const { return executor_->lane(); }

  const std::vector<wire::ParameterSpec>& parameters() const { return network_->parameters(); }
  // The conditions of the network on records.
  const std::vector<nn::SlotRule>& rules() const { return network_->rules(); }
  std::span<const std::uint64_t> vocabularies() const { return network_->vocabularies(); }
  // For the parameter client: whole dense parameters, and the rows of the batch that was last given
  // to prepare(). Those of the batch before are left as they are: a push may still read them.
  std::vector<client::DenseParameter>& dense() { return dense_; }
  std::vector<client::SparseRows>& rows() { return inputs_.rows; }

  // Collects the rows that train() or test() of the batch will use with that seed. kData: the batch
  // does not fit the network.
  Status prepare(const nn::Batch& batch, std::uint64_t seed);
  // Whether the next batch can be made ready while one is computed.
  bool looks_ahead() const { return executor_->stages(); }
  // As prepare(), of the next batch.
  Status prepare_next(const nn::Batch& batch, std::uint64_t seed);
  std::vector<client::SparseRows>& next_rows() { return next_.rows; }
  // Gives a card what it reads of the next batch; the rows' values too, if they have been pulled.
  // An error is left to begin().
  void stage_next(const nn::Batch& batch, std::uint64_t seed, bool has_rows);
  // The batch of prepare_next() is as after prepare().
  void take_next();
  // Begins forward and backward. A card computes them until finish(), and until then the batch and
  // the parameters stay as they are. `seed` differs from batch to batch.
  Status begin(const nn::Batch& batch, std::uint64_t seed);
  // The gradients are means over the batch.
  Result<Score> finish(const nn::Batch& batch);
  Result<Score> train(const nn::Batch& batch, std::uint64_t seed) {
    PADDLE_TRY_STATUS(begin(batch, seed));
    return finish(batch);
  }
  Result<Score> test(const nn::Batch& batch, std::uint64_t seed);
  // Idle between train and test.
  ThreadTeam& team() { return *team_; }
  // All zero, of the shape of every score's tally.
  const Tally& empty_tally() const { return network_->empty_tally(); }
  Reading read(const Score& score) const;

 private:
  Model(std::unique_ptr<nn::Network> network, BatchNotes notes, const config::TrainConfig& train);
  Status choose_executor(std::unique_ptr<device::Device> card);
  // Rows of sparse tables, for one batch.
  struct Inputs {
    std::vector<client::SparseRows> rows;
    std::vector<nn::RowLookup> lookups;  // of them
  };
  Status collect(const nn::Batch& batch, std::uint64_t seed);
  void fill(Inputs& inputs);
  nn::Run run_of(const nn::Batch& batch, nn::Mode mode, std::uint64_t seed,
                 const nn::Parameters& parameters) const;
  nn::Parameters parameters_of(const Inputs& inputs) const;
  Status begin(const nn::Batch& batch, nn::Mode mode, std::uint64_t seed);
  void put_gradients();

  std::unique_ptr<const nn::Network> network_;
  BatchNotes notes_;
  kernels::Compute compute_;
  std::unique_ptr<ThreadTeam> team_;
  std::unique_ptr<Executor> executor_;
  std::string computes_on_;
  nn::Parameters parameters_;                    // of the run
  std::vector<std::vector<std::uint64_t>> ids_;  // by parameter
  std::vector<std::span<float>> gradients_;      // likewise
  std::vector<client::DenseParameter> dense_;
  Inputs inputs_;
  Inputs before_;  // of the batch before
  Inputs next_;
};

// Clips gradients by norm, before a push, where the whole gradient of a parameter is present; a
// mean over trainers of clipped gradients keeps the bound on the norm. First each parameter's
// gradient whose Euclidean norm is over its clip_norm (the optimizer's where it has none) is scaled
// down to it; then, if the norm over all parameters is over clip_global_norm, all are scaled down
// to that. A sparse table's gradient is that of the rows in the batch. Static parameters take no
// part. Norms are summed in float64 in the order of parameters and elements. A gradient without a
// finite norm is left as it is: the shard refuses it and names the parameter. `specs` are all
// parameters of the job, by index.
void clip_gradients(const wire::Optimizer& optimizer, std::span<const wire::ParameterSpec> specs,
                    std::span<client::DenseParameter> dense, std::span<client::SparseRows> rows);

}  // namespace paddle::trainer
