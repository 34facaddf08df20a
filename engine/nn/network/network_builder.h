// Builder of a whole network: finds each type in its table, makes layers and evaluators in order,
// and checks that every output is read and a cost exists.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/config/job_config.h"
#include "engine/nn/builder.h"
#include "engine/nn/evaluator.h"

namespace paddle::nn {

class NetworkBuilder : public Builder {
 public:
  using Builder::Builder;

  // `output`, unless it is empty, is read from outside and must have outputs.
  Status build_layers(const std::string& output = "");
  // After the layers. With none given, each cost's default ones.
  Status build_evaluators(std::vector<config::LayerConfig> evaluators);

  std::vector<std::unique_ptr<Evaluator>> take_evaluators() { return std::move(evaluators_); }

 private:
  Status build_layer(const config::LayerConfig& config);
  Status build_evaluator(const config::LayerConfig& config);
  Status add_reader(const std::string& output);
  Status check_use();
  std::vector<config::LayerConfig> default_evaluators() const;

  std::size_t data_layers_ = 0;  // float slots are the first layers
  std::vector<std::unique_ptr<Evaluator>> evaluators_;
};

}  // namespace paddle::nn
