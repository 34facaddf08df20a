// The layer graph of a job. Immutable once built: any number of threads may run it, each with its
// own Workspace. The same run gives the same bits, whichever thread it is on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/config/job_config.h"
#include "engine/nn/evaluator.h"
#include "engine/nn/layer.h"
#include "engine/nn/run.h"
#include "engine/nn/workspace.h"
#include "proto/parameters.pb.h"

namespace paddle::nn {

class Network {
 public:
  // slots: the batch's, in order. evaluators: type, name, input, label; none: the usual ones of
  // each cost. kUsage, naming the layer and the key, with a suggestion where there is one.
  static Result<Network> build(const std::vector<config::LayerConfig>& layers,
                               const std::vector<config::SlotConfig>& slots,
                               const std::vector<config::LayerConfig>& evaluators = {});

  // Dense and sparse, in network order; an index in it is a parameter id. Shapes: embedding
  // {vocabulary or 0, size}, fc weight {input width, size}, fc bias {size}.
  const std::vector<wire::ParameterSpec>& parameters() const { return parameters_; }

  // kData unless every slot is there, with as many ids and weights as its offsets or the batch's
  // size say, or as many values as its width says.
  Status check(const Batch& batch) const;
  // The ids of each sparse parameter that a run of a checked batch with that seed touches, sorted
  // and unique; one vector for each parameter, empty for dense ones.
  void collect_ids(const Batch& batch, std::uint64_t seed,
                   std::span<std::vector<std::uint64_t>> ids_by_parameter) const;

  // The cost summed over examples [begin, end). The parameters hold every id of collect_ids.
  // kData: a label or id is out of range, or the batch does not fit (check).
  Result<double> forward(const Run& run, Workspace& workspace) const;
  // What the evaluators make of the tallies of any number of forwards, added up; in the order they
  // were given. An empty tally is one of no example.
  std::vector<Value> values(const Tally& tally) const;
  // All zero, of the shape of every forward's tally.
  const Tally& no_tally() const { return no_tally_; }
  // After a forward in Mode::kTrain of the same run: adds the gradients, summed over its examples,
  // to the workspace's.
  void backward(const Run& run, Workspace& workspace) const;

 private:
  Network() = default;
  void prepare(const Run& run, Workspace& workspace) const;
  Status evaluate(const Run& run, Workspace& workspace) const;

  std::vector<std::unique_ptr<Layer>> layers_;
  std::vector<std::unique_ptr<Evaluator>> evaluators_;
  Tally no_tally_;  // of the right shape
  std::vector<wire::ParameterSpec> parameters_;
  std::vector<config::SlotConfig> slots_;
};

}  // namespace paddle::nn
