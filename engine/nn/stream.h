// Where a layer's random numbers come from.
#pragma once

#include <cstdint>
#include <string_view>

namespace paddle::nn {

// The random stream of one example in one layer: dropout's mask, the negatives of a sampled cost.
std::uint64_t example_stream(std::uint64_t seed, std::string_view layer, std::uint64_t example);

}  // namespace paddle::nn
