// Computation of a batch: forward and, in training, backward.
#pragma once

#include <optional>
#include <span>

#include "base/result.h"
#include "engine/device/device.h"
#include "engine/nn/run.h"
#include "engine/trainer/compute/score.h"

namespace paddle::trainer {

// Where the gradients of a batch go, by parameter.
using Gradients = std::span<const std::span<float>>;

class Executor {
 public:
  Executor() = default;
  virtual ~Executor() = default;
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  // Where dense parameters may stay on a card (nn::Parameters::card).
  virtual std::optional<device::Lane> lane() const { return std::nullopt; }
  // Whether stage() does something while a run is computed.
  virtual bool stages() const { return false; }
  // Makes ready what a card reads of the next run, which may be begun, or another one in its place.
  // `has_values`: the parameters have the values of that run. kData: as Network::forward.
  virtual Status stage(const nn::Run& /*batch*/, bool /*has_values*/) { return {}; }
  // Begins the run of a whole batch, with a lookup for each sparse table. A card computes it while
  // its caller does something else; what the run refers to stays as it is until finish(). kData: as
  // Network::forward.
  virtual Status begin(const nn::Run& batch) = 0;
  // Returns when the run that was begun is computed. In training the gradients are overwritten; a
  // test has none. kData: likewise.
  virtual Result<Score> finish(Gradients gradients) = 0;
};

}  // namespace paddle::trainer
