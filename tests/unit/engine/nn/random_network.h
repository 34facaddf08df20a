// Random networks of all types of layers, and batches for them.
#pragma once

#include "base/rng.h"
#include "tests/unit/engine/nn/test_network.h"

namespace paddle::nn {

// Slots of every random network.
extern const std::vector<std::string> kRandomSlots;

// Layers that read one another, share parameters, and end in one to three costs.
std::vector<config::LayerConfig> random_layers(std::uint64_t seed);
// Examples of kRandomSlots: 1 to 40 of them, or so many.
Batch random_batch(std::uint64_t seed, std::size_t size = 0);

}  // namespace paddle::nn
