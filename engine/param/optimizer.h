// Optimizers as pure functions over one block or row. Deterministic: no reassociation, no fused
// multiply-add.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/base/result.h"
#include "proto/parameters.pb.h"

namespace paddle::param {

// What an Optimizer field left at 0 means.
constexpr float kAdamBeta1Default = 0.9F;
constexpr float kAdamBeta2Default = 0.999F;
constexpr float kAdamEpsilonDefault = 1e-8F;
constexpr float kAdagradEpsilonDefault = 1e-6F;

// Floats of state per element: sgd 0, momentum 1, adagrad 1, adam 2. 0 for an unknown method.
std::size_t state_width(const wire::Optimizer& optimizer);

// Whether an update depends on how many came before it (Update::count).
bool counts_updates(const wire::Optimizer& optimizer);

// kUsage: unknown method (with a suggestion) or a value out of its range.
Status validate(const wire::Optimizer& optimizer);

struct Update {
  float learning_rate = 0;  // the optimizer's times the parameter's multiplier
  float l2 = 0;             // decay rate: the gradient becomes g + l2 * w
  std::uint64_t count = 1;  // 1-based number of updates of this block or row, this one included
};

// Applies one gradient in place. `state` is state_width planes of value.size() floats, all 0 before
// the first update.
//   sgd       w -= lr g
//   momentum  m = momentum m - lr g; w += m
//   adagrad   a += g^2; w -= lr g / (sqrt(a) + epsilon). v0.10 has sqrt(a + epsilon), keeps L2 out
//   of a and folds a every
//             16384 updates; here L2 is part of g for every method.
//   adam      m, v moments with bias correction; w -= lr m' / (sqrt(v') + epsilon). v0.10 ignores
//   L2 here.
// The optimizer must be valid, the spans disjoint and of matching sizes (checked).
void apply_update(const wire::Optimizer& optimizer, const Update& update, std::span<float> value,
                  std::span<const float> gradient, std::span<float> state);

}  // namespace paddle::param
