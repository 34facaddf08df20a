// Types of layer and evaluator that job.toml may name, with the keys that each type reads. The
// tables in engine/nn map each type to the function that makes it.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/config/job_config.h"

namespace paddle::config {

struct TypeKeys {
  std::string_view name;
  std::vector<std::string_view> required = {};  // beside type, name and input
  std::vector<std::string_view> optional = {};  // keys that only some types read
  bool has_bias = false;                        // unless `bias` says otherwise

  bool reads(std::string_view key) const;
};

std::span<const TypeKeys> layer_types();  // a cost reads `label`
std::span<const TypeKeys> evaluator_types();

// Describes the first key of `layer` that its type does not read, if there is one.
std::optional<std::string> misplaced_key(const LayerConfig& layer);

// Names of the activations in engine/math/activation.h, in its order.
inline constexpr auto kActivations =
    std::to_array<std::string_view>({"identity", "sigmoid", "relu", "tanh", "softmax", "gelu"});

}  // namespace paddle::config
