#include "tests/sim/collective/packed.h"

#include <algorithm>

#include "tests/sim/collective/world.h"

namespace paddle::sim {

using collective::Operation;
using collective::Pattern;

std::vector<kernels::Bf16> packed(std::span<const float> values, float weight) {
  std::vector<float> residual(values.size(), 0.0F);
  std::vector<kernels::Bf16> packed(values.size());
  kernels::round_with_residual(values.size(), values.data(), weight, residual.data(),
                               packed.data());
  return packed;
}

void unpack(std::span<const kernels::Bf16> packed, std::span<float> values) {
  std::ranges::fill(values, 0.0F);
  kernels::add_bf16(values.size(), packed.data(), values.data());
}

float rounded(float value) {
  kernels::Bf16 q = 0;
  float residual = 0;
  kernels::round_with_residual(1, &value, 1, &residual, &q);
  return value - residual;
}

Operation World::bucket_operation(Rank& rank, Pattern pattern) {
  Operation operation{.shape = {.pattern = pattern, .bytes = rank.bucket.size() * 4},
                      .data = std::as_writable_bytes(std::span(rank.bucket))};
  if (!options_.is_packed) return operation;
  const bool reduces = pattern == Pattern::kReduce;
  rank.packed = packed(rank.bucket, reduces ? rank.shares[rank.core->rank()] : 1);
  operation.packed = rank.packed;
  return operation;
}

std::uint32_t World::owner_of(std::size_t i) const {
  const std::size_t bytes = options_.bucket_floats * sizeof(float);
  std::uint32_t rank = 0;
  while (i * sizeof(float) >= collective::slice_of(bytes, options_.ranks, rank).end) ++rank;
  return rank;
}

}  // namespace paddle::sim
