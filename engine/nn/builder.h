// Builder of one layer or evaluator after another from their configurations: resolves the names of
// inputs, slots and parameters, and words the errors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "engine/config/job_config.h"
#include "engine/kernels/activation.h"
#include "engine/nn/batch.h"
#include "engine/nn/layer.h"
#include "proto/parameters.pb.h"

namespace paddle::nn {

// An earlier layer as an input.
struct LayerInput {
  std::size_t layer = 0;
  std::size_t width = 0;
  std::size_t gradient_width = 0;  // the layer's own
};

struct ParameterRequest {
  const config::ParameterAttributes& attributes;
  std::string default_name;
  std::vector<std::uint64_t> dims;
  double initial_std = 0;        // where the attributes have a negative one
  std::uint64_t vocabulary = 0;  // all ids of a table are below it; 0: they are any
};

// Of a dense parameter.
std::size_t element_count(const wire::ParameterSpec& spec);

// Parameters that the layers of a network declare. Layers that give one name share the parameter,
// and must agree on its shape and attributes.
class ParameterList {
 public:
  // Index of the parameter that `layer` asks for, new or shared. kUsage: its name cannot be a file
  // name, or an earlier layer declared it otherwise.
  Result<std::size_t> declare(const ParameterRequest& request, const std::string& layer);
  std::vector<wire::ParameterSpec> take() { return std::move(specs_); }
  // Of each parameter, that of all its layers; 0 where one has none.
  std::vector<std::uint64_t> take_vocabularies() { return std::move(vocabularies_); }

 private:
  std::vector<wire::ParameterSpec> specs_;
  std::vector<std::string> owners_;  // the layer that declared each
  std::vector<std::uint64_t> vocabularies_;
  std::map<std::string, std::size_t> index_by_name_;
};

class Builder {
 public:
  Builder(const std::vector<config::LayerConfig>& layers,
          const std::vector<config::SlotConfig>& slots)
      : configs_(layers), slots_(slots) {}

  // Makers of layers and evaluators call these, which all concern the one being built.
  const config::LayerConfig& config() const { return *current_; }
  std::size_t index() const { return layers_.size(); }
  // "layer 'x'", or "evaluator 'x'".
  std::string subject() const;
  // kUsage: "job.toml:12: layer 'x': <message>"; without the location where there is no file.
  Error error(std::string message, std::string hint = "") const;
  // An earlier layer with outputs, which gets a consumer more.
  Result<LayerInput> layer_input(const std::string& name);
  // An earlier layer, which may be a cost, of width 0; it gets no consumer.
  Result<LayerInput> find_layer(const std::string& name) const;
  // All inputs, one at least.
  Result<std::vector<LayerInput>> layer_inputs();
  // All inputs: `at_least` or more, of one width, which is the layer's own.
  Result<std::vector<LayerInput>> equal_inputs(std::size_t at_least);
  // Index of a data slot that `key` names.
  Result<std::size_t> slot(const std::string& name, std::string_view key,
                           bool only_ids = false) const;
  const config::SlotConfig& slot_config(std::size_t slot) const { return slots_[slot]; }
  // Index of a parameter, new or shared by name.
  Result<std::size_t> parameter(const ParameterRequest& request);
  // Of the layer being built.
  void add_rule(SlotRule rule) { rules_.push_back(std::move(rule)); }
  // Value of the key 'activation'; identity when absent.
  Result<const kernels::Activation*> activation() const;
  // Configuration of a layer; without a name for a data slot.
  const config::LayerConfig& config_of(const std::string& name) const;
  // Whether a layer of that type has the layer `name` as its first input.
  bool is_read_by(const std::string& name, std::string_view type) const;
  Status check_input_count(std::size_t at_least, std::size_t at_most) const;
  // A given `size` must be the width that follows from the inputs.
  Status check_size(std::size_t width) const;

  // NetworkBuilder calls these.
  // Makes `config` the current one; `role` is "layer" or "evaluator".
  void begin(const config::LayerConfig& config, std::string_view role);
  void add(std::unique_ptr<Layer> layer);
  void add_consumer(std::size_t layer) { ++consumers_[layer]; }
  std::span<const std::unique_ptr<Layer>> layers() const { return layers_; }
  // Layers that read each layer.
  std::span<const std::uint32_t> consumers() const { return consumers_; }
  std::vector<std::unique_ptr<Layer>> take_layers() { return std::move(layers_); }
  std::vector<wire::ParameterSpec> take_parameters() { return parameters_.take(); }
  std::vector<std::uint64_t> take_vocabularies() { return parameters_.take_vocabularies(); }
  std::vector<SlotRule> take_rules() { return std::move(rules_); }

 protected:
  const std::vector<config::LayerConfig>& configs_;
  const std::vector<config::SlotConfig>& slots_;

 private:
  const config::LayerConfig* current_ = nullptr;
  std::string_view role_;
  std::vector<std::unique_ptr<Layer>> layers_;
  std::vector<std::uint32_t> consumers_;
  ParameterList parameters_;
  std::vector<SlotRule> rules_;
};

// ", did you mean 'x'?", or "" when no candidate is near.
std::string did_you_mean(std::string_view name, std::span<const std::string_view> candidates);

}  // namespace paddle::nn
