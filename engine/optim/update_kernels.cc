#include "engine/optim/update_kernels.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "base/multiversion.h"
#include "engine/optim/power.h"

// Inlined into each version of its caller, so that it is compiled for that instruction set.
#define PADDLE_INLINE [[gnu::always_inline]] inline

namespace paddle::optim {
namespace {

// The change of one element by a method's formula.
struct Change {
  float step;  // w += step
  float rate;  // the element's own learning rate
};

PADDLE_INLINE float limit(float g, float most) {
  return std::min(std::max(g, -most), most);
}

// Moves x towards 0 by at most `most`; gives exactly x where that is 0.
PADDLE_INLINE float shrink(float x, float most) {
  return x - limit(x, most);
}

// 1 / (1 - beta^count)
float correction(float beta, std::uint64_t count) {
  return static_cast<float>(1 / (1 - integer_power(static_cast<double>(beta), count)));
}

// The value before the step, w unless the rule decays weights.
template <class Rule>
PADDLE_INLINE float decayed(const Rule& rule, float w) {
  if constexpr (requires { rule.decay; }) return w - rule.decay * w;
  return w;
}

// Bits of the largest of several values without its sign: in the order of the values, infinity and
// NaN last.
constexpr auto kInfinity = std::bit_cast<std::int32_t>(std::numeric_limits<float>::infinity());

PADDLE_INLINE void raise(std::int32_t& largest, float value) {
  constexpr std::int32_t kMagnitude = 0x7fffffff;
  largest = std::max(largest, std::bit_cast<std::int32_t>(value) & kMagnitude);
}

// Applies rule(g, state) -> Change to every element; state holds the element's kPlanes values.
template <std::size_t kPlanes, class Rule>
PADDLE_INLINE std::int32_t sweep_one(const Constants& k, const Elements& e, const Rule& rule) {
  float* const w = e.value;
  const float* const g = e.gradient;
  float* const s0 = e.state;
  float* const s1 = e.state + (kPlanes > 1 ? e.plane_stride : 0);
  float* const s2 = e.state + (kPlanes > 2 ? 2 * e.plane_stride : 0);
  const float clip = k.clip;
  const float l1 = k.l1;
  const float l2 = k.l2;
  const std::size_t size = e.size;
  std::int32_t largest = 0;
#pragma GCC ivdep
  for (std::size_t i = 0; i < size; ++i) {
    std::array<float, 3> state{};
    if constexpr (kPlanes > 0) state[0] = s0[i];
    if constexpr (kPlanes > 1) state[1] = s1[i];
    if constexpr (kPlanes > 2) state[2] = s2[i];
    const Change change = rule(limit(g[i], clip) + l2 * w[i], state);
    const float value = shrink(decayed(rule, w[i]) + change.step, l1 * change.rate);
    w[i] = value;
    if constexpr (kPlanes > 0) s0[i] = state[0];
    if constexpr (kPlanes > 1) s1[i] = state[1];
    if constexpr (kPlanes > 2) s2[i] = state[2];
    raise(largest, value);
    if constexpr (kPlanes > 0) raise(largest, state[0]);
    if constexpr (kPlanes > 1) raise(largest, state[1]);
    if constexpr (kPlanes > 2) raise(largest, state[2]);
  }
  return largest;
}

template <std::size_t kPlanes, class Rule>
PADDLE_INLINE bool sweep(const Constants& k, Batch batch, const Rule& rule) {
  std::int32_t largest = 0;
  for (const Elements& elements : batch) {
    largest = std::max(largest, sweep_one<kPlanes>(k, elements, rule));
  }
  return largest < kInfinity;
}

using State = std::array<float, 3>;

// A rule whose step goes through heavy-ball momentum, in the plane after the rule's own.
template <std::size_t kPlanes, class Rule>
struct HeavyBall {
  Rule rule;
  float momentum;
  PADDLE_INLINE Change operator()(float g, State& state) const {
    const Change change = rule(g, state);
    state[kPlanes] = momentum * state[kPlanes] + change.step;
    return {state[kPlanes], change.rate};
  }
};

template <std::size_t kPlanes, class Rule>
PADDLE_INLINE bool sweep_adaptive(const Constants& k, Batch batch, const Rule& rule) {
  if (k.momentum > 0) {
    return sweep<kPlanes + 1>(k, batch, HeavyBall<kPlanes, Rule>{rule, k.momentum});
  }
  return sweep<kPlanes>(k, batch, rule);
}

struct Sgd {
  float rate;
  PADDLE_INLINE Change operator()(float g, State&) const { return {-(rate * g), rate}; }
};

struct AdagradRule {
  Constants k;
  PADDLE_INLINE Change operator()(float g, State& s) const {
    s[0] += g * g;
    const float rate = k.rate / (std::sqrt(s[0]) + k.epsilon);
    return {-(rate * g), rate};
  }
};

struct DecayedAdagradRule {
  Constants k;
  PADDLE_INLINE Change operator()(float g, State& s) const {
    s[0] = k.rho * s[0] + (1.0F - k.rho) * g * g;
    const float rate = k.rate / (std::sqrt(s[0]) + k.epsilon);
    return {-(rate * g), rate};
  }
};

struct AdadeltaRule {
  Constants k;
  PADDLE_INLINE Change operator()(float g, State& s) const {
    s[0] = k.rho * s[0] + (1.0F - k.rho) * g * g;
    const float scale = std::sqrt((s[1] + k.epsilon) / (s[0] + k.epsilon));
    const float change = scale * g;
    s[1] = k.rho * s[1] + (1.0F - k.rho) * change * change;
    return {-(k.rate * change), k.rate * scale};
  }
};

struct RmspropRule {
  Constants k;
  PADDLE_INLINE Change operator()(float g, State& s) const {
    s[0] = k.rho * s[0] + (1.0F - k.rho) * g * g;
    const float rate = k.rate / std::sqrt(s[0] + k.epsilon);
    return {-(rate * g), rate};
  }
};

struct CenteredRmspropRule {
  Constants k;
  PADDLE_INLINE Change operator()(float g, State& s) const {
    s[0] = k.rho * s[0] + (1.0F - k.rho) * g * g;
    s[1] = k.rho * s[1] + (1.0F - k.rho) * g;
    // Rounding can take the variance of a constant gradient below 0.
    const float variance = std::max(s[0] - s[1] * s[1], 0.0F);
    const float rate = k.rate / std::sqrt(variance + k.epsilon);
    return {-(rate * g), rate};
  }
};

struct AdamRule {
  Constants k;
  float correction1;
  float correction2;
  PADDLE_INLINE Change operator()(float g, State& s) const {
    s[0] = k.beta1 * s[0] + (1.0F - k.beta1) * g;
    s[1] = k.beta2 * s[1] + (1.0F - k.beta2) * g * g;
    const float rate = k.rate / (std::sqrt(s[1] * correction2) + k.epsilon);
    return {-(rate * (s[0] * correction1)), rate};
  }
};

PADDLE_INLINE AdamRule adam_rule(const Constants& k, std::uint64_t count) {
  return {k, correction(k.beta1, count), correction(k.beta2, count)};
}

struct AdamwRule : AdamRule {
  float decay;  // the part of w that goes in one update
};

struct AdamaxRule {
  Constants k;
  PADDLE_INLINE Change operator()(float g, State& s) const {
    s[0] = k.beta1 * s[0] + (1.0F - k.beta1) * g;
    s[1] = std::max(k.beta2 * s[1], std::fabs(g));
    const float rate = k.rate / (s[1] + k.epsilon);
    return {-(rate * s[0]), rate};
  }
};

PADDLE_INLINE std::int32_t sweep_ftrl(const Constants& constants, const Elements& e) {
  const Constants k = constants;
  float* const w = e.value;
  const float* const gradient = e.gradient;
  float* const n = e.state;
  float* const z = e.state + e.plane_stride;
  float* const s = e.state + 2 * e.plane_stride;
  const std::size_t size = e.size;
  std::int32_t largest = 0;
#pragma GCC ivdep
  for (std::size_t i = 0; i < size; ++i) {
    const float g = limit(gradient[i], k.clip);
    n[i] += g * g;
    const float inverse_rate = (k.beta + std::sqrt(n[i])) / k.rate;
    z[i] += g - (inverse_rate - s[i]) * w[i];
    s[i] = inverse_rate;
    w[i] = 0.0F - shrink(z[i], k.l1) / (inverse_rate + k.l2);
    for (const float value : {w[i], n[i], z[i], s[i]}) raise(largest, value);
  }
  return largest;
}

}  // namespace

PADDLE_MULTIVERSION
bool update_sgd(const Constants& k, std::uint64_t /*count*/, Batch batch) {
  return sweep<0>(k, batch, Sgd{k.rate});
}

PADDLE_MULTIVERSION
bool update_momentum(const Constants& k, std::uint64_t /*count*/, Batch batch) {
  return sweep<1>(k, batch, HeavyBall<0, Sgd>{{k.rate}, k.momentum});
}

PADDLE_MULTIVERSION
bool update_torch_momentum(const Constants& k, std::uint64_t count, Batch batch) {
  Constants scaled = k;
  if (count > 1) scaled.rate *= 1.0F - k.momentum;
  return sweep<1>(scaled, batch, HeavyBall<0, Sgd>{{scaled.rate}, k.momentum});
}

PADDLE_MULTIVERSION
bool update_adagrad(const Constants& k, std::uint64_t /*count*/, Batch batch) {
  return sweep_adaptive<1>(k, batch, AdagradRule{k});
}

PADDLE_MULTIVERSION
bool update_decayed_adagrad(const Constants& k, std::uint64_t /*count*/, Batch batch) {
  return sweep_adaptive<1>(k, batch, DecayedAdagradRule{k});
}

PADDLE_MULTIVERSION
bool update_adadelta(const Constants& k, std::uint64_t /*count*/, Batch batch) {
  return sweep_adaptive<2>(k, batch, AdadeltaRule{k});
}

PADDLE_MULTIVERSION
bool update_rmsprop(const Constants& k, std::uint64_t /*count*/, Batch batch) {
  if (k.is_centered) return sweep_adaptive<2>(k, batch, CenteredRmspropRule{k});
  return sweep_adaptive<1>(k, batch, RmspropRule{k});
}

PADDLE_MULTIVERSION
bool update_adam(const Constants& k, std::uint64_t count, Batch batch) {
  return sweep<2>(k, batch, adam_rule(k, count));
}

PADDLE_MULTIVERSION
bool update_adamw(const Constants& k, std::uint64_t count, Batch batch) {
  return sweep<2>(k, batch, AdamwRule{adam_rule(k, count), k.rate * k.weight_decay});
}

PADDLE_MULTIVERSION
bool update_adamax(const Constants& k, std::uint64_t count, Batch batch) {
  Constants scaled = k;
  scaled.rate *= correction(k.beta1, count);
  return sweep<2>(k, batch, AdamaxRule{scaled});
}

PADDLE_MULTIVERSION
bool update_ftrl(const Constants& k, std::uint64_t /*count*/, Batch batch) {
  if (!(k.rate > 0)) return true;  // an infinite distance to every other value
  std::int32_t largest = 0;
  for (const Elements& elements : batch) largest = std::max(largest, sweep_ftrl(k, elements));
  return largest < kInfinity;
}

PADDLE_MULTIVERSION
bool update_average(float weight, std::size_t size, const float* value, float* average) {
  std::int32_t largest = 0;
#pragma GCC ivdep
  for (std::size_t i = 0; i < size; ++i) {
    average[i] += weight * (value[i] - average[i]);
    raise(largest, average[i]);
  }
  return largest < kInfinity;
}

PADDLE_MULTIVERSION
bool all_below(std::span<const float> values, float limit) {
  std::int32_t largest = 0;
  for (const float value : values) raise(largest, value);
  return largest < std::bit_cast<std::int32_t>(limit);
}

}  // namespace paddle::optim
