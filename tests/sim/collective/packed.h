// Arrays as they go between ranks where buckets are packed.
#pragma once

#include <span>
#include <vector>

#include "engine/math/rank_sums.h"

namespace paddle::sim {

std::vector<kernels::Bf16> packed(std::span<const float> values, float weight);
void unpack(std::span<const kernels::Bf16> packed, std::span<float> values);
float rounded(float value);

}  // namespace paddle::sim
