// Builder of a whole network: finds each type in its table, makes layers and evaluators in order,
// and checks that every output is read and a cost exists.
#pragma once

#include <memory>
#include <vector>

#include "base/result.h"
#include "engine/config/job_config.h"
#include "engine/nn/builder.h"
#include "engine/nn/evaluator.h"

namespace paddle::nn {

class NetworkBuilder {
 public:
  NetworkBuilder(const std::vector<config::LayerConfig>& layers,
                 const std::vector<config::SlotConfig>& slots)
      : configs_(layers), slots_(slots), builder_(layers, slots) {}

  Status build_layers();
  // After the layers. With none given, each cost's default ones.
  Status build_evaluators(std::vector<config::LayerConfig> evaluators);

  std::vector<std::unique_ptr<Layer>> take_layers() { return builder_.take_layers(); }
  std::vector<std::unique_ptr<Evaluator>> take_evaluators() { return std::move(evaluators_); }
  std::vector<wire::ParameterSpec> take_parameters() { return builder_.take_parameters(); }

 private:
  Status build_layer(const config::LayerConfig& config);
  Status build_evaluator(const config::LayerConfig& config);
  Status check_use();
  std::vector<config::LayerConfig> default_evaluators() const;

  const std::vector<config::LayerConfig>& configs_;
  const std::vector<config::SlotConfig>& slots_;
  Builder builder_;
  std::size_t data_layers_ = 0;  // float slots are the first layers
  std::vector<std::unique_ptr<Evaluator>> evaluators_;
};

}  // namespace paddle::nn
