// The network with this trainer's copy of the parameters: the computation between pull and push.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/pool.h"
#include "engine/client/parameter_client.h"
#include "engine/config/job_config.h"
#include "engine/nn/network.h"
#include "engine/trainer/batch_notes.h"
#include "engine/trainer/card.h"
#include "engine/trainer/executor.h"
#include "engine/trainer/metrics.h"

namespace paddle::trainer {

// The machine that a model computes on.
struct Machine {
  std::string selected_gpus = trainer::selected_gpus();
};

class Model {
 public:
  // kUsage: the layers do not fit together. Errors of opening a GPU: as open_card().
  static Result<Model> build(const config::JobConfig& job, const Machine& machine = {});

  // "4 threads", with the kernel of products if the job asks for less than float32; or the name of
  // a GPU.
  const std::string& computes_on() const { return computes_on_; }
  // The GPU and the stream where a client may keep dense parameters; empty on CPUs.
  std::optional<device::ComputeStream> compute_stream() const {
    return executor_->compute_stream();
  }

  const std::vector<wire::ParameterSpec>& parameters() const { return network_->parameters(); }
  // Requirements of the network on records.
  const std::vector<nn::SlotRule>& rules() const { return network_->rules(); }
  std::span<const std::uint64_t> vocabularies() const { return network_->vocabularies(); }
  // For the parameter client: whole dense parameters, and the rows of the batch that was last given
  // to prepare(). The rows of the batch before do not change: a push may still read them.
  std::vector<client::DenseParameter>& dense() { return dense_; }
  std::vector<client::SparseRows>& rows() { return inputs_.rows; }

  // Collects the rows that train() or test() of the batch with this seed will use. kData: the batch
  // does not fit the network.
  Status prepare(const nn::Batch& batch, std::uint64_t seed);
  // Whether the next batch can be prepared while one is computed.
  bool looks_ahead() const { return executor_->stages(); }
  // As prepare(), for the next batch.
  Status prepare_next(const nn::Batch& batch, std::uint64_t seed);
  std::vector<client::SparseRows>& next_rows() { return next_.rows; }
  // Copies to the card what it reads of the next batch, with the rows' values if they have been
  // pulled. begin() reports errors.
  void stage_next(const nn::Batch& batch, std::uint64_t seed, bool has_rows);
  // Makes the batch of prepare_next() the current one, as prepare() does.
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
  // Idle while no batch is computed.
  ThreadTeam& team() { return *team_; }
  // All zero; every score's tally has this shape.
  const Tally& empty_tally() const { return network_->empty_tally(); }
  Reading read(const Score& score) const;

 private:
  Model(std::unique_ptr<nn::Network> network, BatchNotes notes, const config::TrainConfig& train);
  Status choose_executor(std::unique_ptr<device::Device> card);
  // Rows of sparse tables, for one batch.
  struct Inputs {
    std::vector<client::SparseRows> rows;
    std::vector<nn::RowLookup> lookups;  // of `rows`
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
  nn::Parameters parameters_;                    // of the current run
  std::vector<std::vector<std::uint64_t>> ids_;  // by parameter
  std::vector<nn::TableReads> reads_;            // memory of collect()
  std::vector<std::span<float>> gradients_;      // by parameter
  std::vector<client::DenseParameter> dense_;
  Inputs inputs_;
  Inputs before_;  // of the batch before
  Inputs next_;
};

// Clips gradients by norm before a push, where the whole gradient of a parameter is present; a mean
// over trainers of clipped gradients keeps the bound on the norm. First, a parameter's gradient
// whose Euclidean norm is above clip_norm (the parameter's own, or else the optimizer's) is scaled
// down to it. Then, if the norm over all parameters is above clip_global_norm, all gradients are
// scaled down to that. The gradient of a sparse table consists of the rows in the batch. Static
// parameters are left out. Norms are summed in float64, in the order of parameters and elements. A
// gradient without a finite norm is not changed: the shard refuses it and names the parameter.
// `specs` are all parameters of the job, by index.
void clip_gradients(const wire::Optimizer& optimizer, std::span<const wire::ParameterSpec> specs,
                    std::span<client::DenseParameter> dense, std::span<client::SparseRows> rows);

}  // namespace paddle::trainer
