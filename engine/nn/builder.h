// Builder of layers and evaluators, one after another, from their configurations. It resolves the
// names of inputs, slots and parameters, and writes the error messages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "engine/config/job_config.h"
#include "engine/math/activation.h"
#include "engine/nn/batch.h"
#include "engine/nn/layer.h"
#include "engine/nn/sampler.h"
#include "proto/parameters.pb.h"

namespace paddle::nn {

// An earlier layer that is an input of the layer being built.
struct LayerInput {
  std::size_t layer = 0;
  std::size_t width = 0;
  std::size_t gradient_width = 0;  // Layer::gradient_width() of that layer
};

struct ParameterRequest {
  const config::ParameterAttributes& attributes;
  std::string default_name;
  std::vector<std::uint64_t> dims;
  double initial_std = 0;        // used if attributes.initial_std is negative
  std::uint64_t vocabulary = 0;  // all ids of a table are below it; 0: any id
};

// Number of values in a dense parameter.
std::size_t element_count(const wire::ParameterSpec& spec);

// Parameters that the layers of a network declare. Layers that give the same name share the
// parameter, and must agree on its shape and attributes.
class ParameterList {
 public:
  // Index of the parameter that `layer` asks for, new or shared. kUsage: its name cannot be a file
  // name, or an earlier layer declared it with another shape or other attributes.
  Result<std::size_t> declare(const ParameterRequest& request, const std::string& layer);
  std::vector<wire::ParameterSpec> take() { return std::move(specs_); }
  // For each parameter, the largest vocabulary of the layers that share it; 0 if one of them
  // accepts any id.
  std::vector<std::uint64_t> take_vocabularies() { return std::move(vocabularies_); }

 private:
  std::vector<wire::ParameterSpec> specs_;
  std::vector<std::string> owners_;  // the layer that declared each one first
  std::vector<std::uint64_t> vocabularies_;
  std::map<std::string, std::size_t> index_by_name_;
};

class Builder {
 public:
  Builder(const std::vector<config::LayerConfig>& layers,
          const std::vector<config::SlotConfig>& slots)
      : configs_(layers), slots_(slots) {}

  // The makers of layers and evaluators call the functions below, which are about the layer or
  // evaluator being built.
  const config::LayerConfig& config() const { return *current_; }
  std::size_t index() const { return layers_.size(); }
  // "layer 'x'", or "evaluator 'x'".
  std::string subject() const;
  // kUsage: "job.toml:12: layer 'x': <message>"; without the location if there is no file.
  Error error(std::string message, std::string hint = "") const;
  // Finds an earlier layer that has outputs, and counts one more consumer of it.
  Result<LayerInput> layer_input(const std::string& name);
  // Finds an earlier layer, which may be a cost (its width is 0). Does not count a consumer.
  Result<LayerInput> find_layer(const std::string& name) const;
  // All inputs. kUsage: there is none.
  Result<std::vector<LayerInput>> layer_inputs();
  // All inputs. kUsage: there are fewer than `at_least`, or their widths differ from each other or
  // from the `size` in the configuration.
  Result<std::vector<LayerInput>> equal_inputs(std::size_t at_least);
  // Index of the data slot `name`. Messages name the configuration key `key`, which has this value.
  // kUsage: there is no such slot, or it has floats although `only_ids` is set.
  Result<std::size_t> slot(const std::string& name, std::string_view key,
                           bool only_ids = false) const;
  const config::SlotConfig& slot_config(std::size_t slot) const { return slots_[slot]; }
  // Index of the slot with the weights of examples (DataConfig::weight), if there is one.
  std::optional<std::size_t> weight_slot() const;
  // Index of a parameter, new or shared by name.
  Result<std::size_t> parameter(const ParameterRequest& request);
  // Draws classes by the current layer's 'counts'. Layers with equal counts share one table, which
  // then stays in the caches. REQUIRES: the layer is one of those given to the constructor.
  Sampler unigram_sampler();
  // Adds a condition of the layer or evaluator being built on a slot's values.
  void add_rule(SlotRule rule) { rules_.push_back(std::move(rule)); }
  // Value of the key 'activation'; identity when absent.
  Result<const kernels::Activation*> activation() const;
  // Configuration of the layer `name`; one with an empty name if there is no such layer (`name` may
  // be a data slot).
  const config::LayerConfig& config_of(const std::string& name) const;
  // Whether a layer of type `type` has the layer `name` as its first input.
  bool is_read_by(const std::string& name, std::string_view type) const;
  Status check_input_count(std::size_t at_least, std::size_t at_most) const;
  // kUsage: the configuration has a `size` that is not `width`, which follows from the inputs.
  Status check_size(std::size_t width) const;

  // NetworkBuilder calls the functions below.

  // Makes `config` the current one; `role` is "layer" or "evaluator".
  void begin(const config::LayerConfig& config, std::string_view role);
  void add(std::unique_ptr<Layer> layer);
  void add_consumer(std::size_t layer) { ++consumers_[layer]; }
  std::span<const std::unique_ptr<Layer>> layers() const { return layers_; }
  // Number of layers that read each layer.
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
  std::vector<std::pair<std::span<const std::uint64_t>, Sampler>> samplers_;  // by counts
};

// ", did you mean 'x'?", or "" when no candidate is near.
std::string did_you_mean(std::string_view name, std::span<const std::string_view> candidates);

}  // namespace paddle::nn
