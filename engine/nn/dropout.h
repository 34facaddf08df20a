// Where dropout's masks come from.
#pragma once

#include <cstdint>
#include <string_view>

namespace paddle::nn {

// The random stream of one example in one layer: kernels::dropout_mask turns it into a mask.
std::uint64_t dropout_stream(std::uint64_t seed, std::string_view layer, std::uint64_t example);

}  // namespace paddle::nn
