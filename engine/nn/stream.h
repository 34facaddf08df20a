// Random streams of a layer.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/rng.h"

namespace paddle::nn {

// Stream of one example in one layer: of dropout's mask, or of the negatives of a sampled cost.
inline std::uint64_t example_stream(std::uint64_t seed, std::string_view layer,
                                    std::uint64_t example) {
  return hash_combine(hash_combine(seed, stable_hash(layer)), example);
}

}  // namespace paddle::nn
