// Turns layer configurations into layers: resolves names, declares parameters, words the errors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "engine/config/job_config.h"
#include "engine/kernels/elementwise.h"
#include "engine/nn/evaluator.h"
#include "engine/nn/layer.h"

namespace paddle::nn {

// An earlier layer as an input.
struct LayerInput {
  std::size_t layer = 0;
  std::size_t width = 0;
  std::size_t gradient_width = 0;  // the layer's own
};

// What a layer kind needs; initial_std is used where the configuration says "negative".
struct ParameterRequest {
  const config::ParameterAttributes& attributes;
  std::string default_name;
  std::vector<std::uint64_t> dims;
  double initial_std = 0;
};

class Builder {
 public:
  Builder(const std::vector<config::LayerConfig>& layers,
          const std::vector<config::SlotConfig>& slots)
      : configs_(layers), slots_(slots) {}

  // Every layer, checked as a whole.
  Status build();
  // Then the evaluators; with none given, those that go with each cost.
  Status build_evaluators(std::vector<config::LayerConfig> evaluators);

  std::vector<std::unique_ptr<Layer>> take_layers() { return std::move(layers_); }
  std::vector<std::unique_ptr<Evaluator>> take_evaluators() { return std::move(evaluators_); }
  std::vector<wire::ParameterSpec> take_parameters() { return std::move(parameters_); }

  // For the layer and evaluator kinds: all speak of the one that is being built.
  const config::LayerConfig& config() const { return *current_; }
  std::size_t index() const { return layers_.size(); }
  // "layer 'x'", or "evaluator 'x'".
  std::string what() const;
  // kUsage: "job.toml:12: layer 'x': <message>"; without the place where it is from no file.
  Error error(std::string message, std::string hint = "") const;
  Result<LayerInput> layer_input(const std::string& name);
  // The same for a reader that is no consumer, which may name a cost layer: its width is 0.
  Result<LayerInput> find_layer(const std::string& name) const;
  // All of them, one at least.
  Result<std::vector<LayerInput>> layer_inputs();
  // The same, `at_least` so many and all of one width, which is the layer's own.
  Result<std::vector<LayerInput>> equal_inputs(std::size_t at_least);
  enum class SlotKind { kIds, kFloats };
  // The index of a data slot, named by `key`; of that kind, where one is given.
  Result<std::size_t> slot(const std::string& name, std::string_view key,
                           std::optional<SlotKind> kind = {}) const;
  const config::SlotConfig& slot_config(std::size_t slot) const { return slots_[slot]; }
  // The index of a parameter, new or shared by name.
  Result<std::size_t> parameter(const ParameterRequest& request);
  // The key 'activation'; identity when absent.
  Result<kernels::Activation> activation() const;
  // What an earlier layer has written for that key, or "".
  std::string activation_of(const std::string& layer) const;
  std::string type_of(const std::string& layer) const;
  Status need_inputs(std::size_t at_least, std::size_t at_most) const;
  // A written `size` must be the width that the inputs give.
  Status size_is(std::size_t width) const;

 private:
  void add_data_layers();
  Status build_layer();
  Status build_evaluator();
  std::vector<config::LayerConfig> usual_evaluators() const;
  std::vector<std::string_view> slot_names() const;
  Status check_keys() const;
  std::string suggest(std::string_view name, std::vector<std::string_view> candidates) const;

  const std::vector<config::LayerConfig>& configs_;
  const std::vector<config::SlotConfig>& slots_;
  std::size_t data_layers_ = 0;  // float slots are the first layers
  const config::LayerConfig* current_ = nullptr;
  std::string_view role_ = "layer";
  std::vector<std::unique_ptr<Layer>> layers_;
  std::vector<std::unique_ptr<Evaluator>> evaluators_;
  std::vector<std::uint32_t> consumers_;  // by layer; evaluators too, once they are built
  std::vector<wire::ParameterSpec> parameters_;
  std::vector<std::string> parameter_owners_;  // the layer that declared each
  std::map<std::string, std::size_t> parameter_by_name_;
};

}  // namespace paddle::nn
