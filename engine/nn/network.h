// Layer graph of a job. Immutable once built: any number of threads may run it, each with its own
// Workspace. The same run gives the same bits on every thread.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/config/job_config.h"
#include "engine/nn/batch.h"
#include "engine/nn/evaluator.h"
#include "engine/nn/layer.h"
#include "engine/nn/plan.h"
#include "engine/nn/run.h"
#include "engine/nn/workspace.h"
#include "proto/parameters.pb.h"

namespace paddle::nn {

// Results of a forward that evaluators read, by layer; the entries of layers that no evaluator
// reads are empty or 0.
struct ForwardResults {
  std::vector<std::span<const float>> outputs;
  std::vector<std::span<const std::uint32_t>> predictions;
  std::vector<double> costs;
};

class Network {
 public:
  // `slots` are the slots of a batch, in their order. If `evaluators` is empty, each cost gets its
  // default evaluators. kUsage: the message names the layer and the key, and suggests a correction
  // if it knows one.
  //
  // If `output` names a layer, which must not be a cost, the network is for predictions: only this
  // layer and the layers that it depends on run and read rows, and no evaluator runs.
  static Result<Network> build(const std::vector<config::LayerConfig>& layers,
                               const std::vector<config::SlotConfig>& slots,
                               const std::vector<config::LayerConfig>& evaluators = {},
                               const std::string& output = "");

  // Dense and sparse parameters in network order; the index is the parameter's id. Shapes:
  // embedding {vocabulary or 0, size}, fc weight {input width, size}, fc bias {size}.
  const std::vector<wire::ParameterSpec>& parameters() const { return parameters_; }
  // For each parameter: all ids of a table are below this number; 0: any id.
  std::span<const std::uint64_t> vocabularies() const { return vocabularies_; }

  // Conditions of the layers on records. forward() fails for records that break them.
  const std::vector<SlotRule>& rules() const { return rules_; }

  // kData: a slot is missing, or the number of its ids, weights or values does not follow from its
  // offsets, its width and the batch's size.
  Status check(const Batch& batch) const;
  // Ids of each sparse parameter that a run of a checked batch with `seed` reads, sorted and
  // unique; one vector for each parameter, empty for dense ones. `memory` may be kept for the next
  // batch. Uses the team's threads, unless it is null.
  void collect_ids(const Batch& batch, std::uint64_t seed,
                   std::span<std::vector<std::uint64_t>> ids_by_parameter,
                   std::vector<TableReads>& memory, ThreadTeam* team) const;
  void collect_ids(const Batch& batch, std::uint64_t seed,
                   std::span<std::vector<std::uint64_t>> ids_by_parameter) const {
    std::vector<TableReads> memory;
    collect_ids(batch, seed, ids_by_parameter, memory, nullptr);
  }

  // Cost summed over examples [begin, end). REQUIRES: the parameters contain every id of
  // collect_ids(). kData: a label or id is out of range, or check() fails.
  Result<double> forward(const Run& run, Workspace& workspace) const;
  // The outputs of the layer named at build() for the examples of the last forward, row by row.
  std::size_t output_width() const { return layers_[output_]->width(); }
  std::span<const float> output(const Workspace& workspace) const;
  // Figures of the evaluators, in their order, for the sum of the tallies of any number of
  // forwards. A tally without counters counts as a tally of no examples.
  std::vector<Value> values(const Tally& tally) const;
  // Tally of no examples, with every counter at 0.
  const Tally& empty_tally() const { return empty_tally_; }
  // Adds the gradients, summed over the run's examples, to the gradients in the workspace.
  // REQUIRES: a forward() of the same run in Mode::kTrain.
  void backward(const Run& run, Workspace& workspace) const;

  // For executors of lower(): the layers whose outputs evaluators read, and the layers whose
  // predictions they read. Evaluators read outputs where `plan` has no predictions of the layer.
  std::vector<std::size_t> evaluated_outputs(const Plan& plan) const;
  std::vector<std::size_t> evaluated_predictions(const Plan& plan) const;
  // Tally of a run, computed from the results of an executor.
  Result<Tally> count(const Run& run, const ForwardResults& results, Workspace& workspace) const;

  // The same computation as ops for an executor other than the layers themselves; only the forward
  // if the network is for predictions.
  Plan lower() const;

 private:
  Network() = default;
  void use_all();
  void use_for(const std::vector<config::LayerConfig>& configs, const std::string& output);
  void prepare(const Run& run, Workspace& workspace) const;
  std::vector<std::size_t> evaluated(const Plan& plan, Evaluator::Reads reads) const;
  Status evaluate(const Run& run, Workspace& workspace) const;

  std::vector<std::unique_ptr<Layer>> layers_;
  std::vector<const Layer*> used_;  // layers that run, in their order
  std::size_t output_ = 0;          // layer index, if for predictions
  std::vector<std::unique_ptr<Evaluator>> evaluators_;
  Tally empty_tally_;
  std::vector<wire::ParameterSpec> parameters_;
  std::vector<std::uint64_t> vocabularies_;
  std::vector<config::SlotConfig> slots_;
  std::vector<SlotRule> rules_;
};

}  // namespace paddle::nn
