#include "engine/optim/update_kernels.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/multiversion.h"

// Inlined into each version of its caller, so that it is compiled for that instruction set.
#define PADDLE_INLINE [[gnu::always_inline]] inline

namespace paddle::optim {
namespace {

// What a method's formula gives for one element.
struct Change {
  float step;  // w += step
  float rate;  // the element's own learning rate
};

PADDLE_INLINE float limit(float g, float most) {
  return std::min(std::max(g, -most), most);
}

// Towards 0 by at most `most`; exactly x where that is 0.
PADDLE_INLINE float shrink(float x, float most) {
  return x - limit(x, most);
}

// rule(g, state) -> Change, for every element; state holds the element's kPlanes values.
template <std::size_t kPlanes, class Rule>
PADDLE_INLINE void sweep_one(const Bounds& bounds, const Elements& e, const Rule& rule) {
  float* const w = e.value;
  const float* const g = e.gradient;
  float* const s0 = e.state;
  float* const s1 = e.state + (kPlanes > 1 ? e.plane_stride : 0);
  float* const s2 = e.state + (kPlanes > 2 ? 2 * e.plane_stride : 0);
  const Bounds b = bounds;
  const std::size_t size = e.size;
#pragma GCC ivdep
  for (std::size_t i = 0; i < size; ++i) {
    std::array<float, 3> state{};
    if constexpr (kPlanes > 0) state[0] = s0[i];
    if constexpr (kPlanes > 1) state[1] = s1[i];
    if constexpr (kPlanes > 2) state[2] = s2[i];
    const Change change = rule(limit(g[i], b.clip) + b.l2 * w[i], state);
    w[i] = shrink(w[i] + change.step, b.l1 * change.rate);
    if constexpr (kPlanes > 0) s0[i] = state[0];
    if constexpr (kPlanes > 1) s1[i] = state[1];
    if constexpr (kPlanes > 2) s2[i] = state[2];
  }
}

template <std::size_t kPlanes, class Rule>
PADDLE_INLINE void sweep(const Bounds& bounds, Batch batch, const Rule& rule) {
  for (const Elements& elements : batch) sweep_one<kPlanes>(bounds, elements, rule);
}

using State = std::array<float, 3>;

// A rule whose step goes through heavy-ball momentum, kept in the plane after the rule's own.
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
PADDLE_INLINE void sweep_adaptive(const Bounds& bounds, float momentum, Batch batch,
                                  const Rule& rule) {
  if (momentum > 0) {
    sweep<kPlanes + 1>(bounds, batch, HeavyBall<kPlanes, Rule>{rule, momentum});
  } else {
    sweep<kPlanes>(bounds, batch, rule);
  }
}

struct Sgd {
  float rate;
  PADDLE_INLINE Change operator()(float g, State&) const { return {-(rate * g), rate}; }
};

struct AdagradRule {
  Adaptive k;
  PADDLE_INLINE Change operator()(float g, State& s) const {
    s[0] += g * g;
    const float rate = k.rate / (std::sqrt(s[0]) + k.epsilon);
    return {-(rate * g), rate};
  }
};

struct DecayedAdagradRule {
  Adaptive k;
  PADDLE_INLINE Change operator()(float g, State& s) const {
    s[0] = k.rho * s[0] + (1.0F - k.rho) * g * g;
    const float rate = k.rate / (std::sqrt(s[0]) + k.epsilon);
    return {-(rate * g), rate};
  }
};

struct AdadeltaRule {
  Adaptive k;
  PADDLE_INLINE Change operator()(float g, State& s) const {
    s[0] = k.rho * s[0] + (1.0F - k.rho) * g * g;
    const float scale = std::sqrt((s[1] + k.epsilon) / (s[0] + k.epsilon));
    const float change = scale * g;
    s[1] = k.rho * s[1] + (1.0F - k.rho) * change * change;
    return {-(k.rate * change), k.rate * scale};
  }
};

struct RmspropRule {
  Adaptive k;
  PADDLE_INLINE Change operator()(float g, State& s) const {
    s[0] = k.rho * s[0] + (1.0F - k.rho) * g * g;
    const float rate = k.rate / std::sqrt(s[0] + k.epsilon);
    return {-(rate * g), rate};
  }
};

struct CenteredRmspropRule {
  Adaptive k;
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
  Moments k;
  PADDLE_INLINE Change operator()(float g, State& s) const {
    s[0] = k.beta1 * s[0] + (1.0F - k.beta1) * g;
    s[1] = k.beta2 * s[1] + (1.0F - k.beta2) * g * g;
    const float rate = k.rate / (std::sqrt(s[1] * k.correction2) + k.epsilon);
    return {-(rate * (s[0] * k.correction1)), rate};
  }
};

struct AdamaxRule {
  Moments k;
  PADDLE_INLINE Change operator()(float g, State& s) const {
    s[0] = k.beta1 * s[0] + (1.0F - k.beta1) * g;
    s[1] = std::max(k.beta2 * s[1], std::fabs(g));
    const float rate = k.rate / (s[1] + k.epsilon);
    return {-(rate * s[0]), rate};
  }
};

PADDLE_INLINE void sweep_ftrl(float clip, const Ftrl& constants, const Elements& e) {
  const Ftrl k = constants;
  float* const w = e.value;
  const float* const gradient = e.gradient;
  float* const n = e.state;
  float* const z = e.state + e.plane_stride;
  float* const d = e.state + 2 * e.plane_stride;
  const std::size_t size = e.size;
#pragma GCC ivdep
  for (std::size_t i = 0; i < size; ++i) {
    const float g = limit(gradient[i], clip);
    n[i] += g * g;
    const float inverse_rate = (k.beta + std::sqrt(n[i])) / k.rate;
    z[i] += g - (inverse_rate - d[i]) * w[i];
    d[i] = inverse_rate;
    w[i] = 0.0F - shrink(z[i], k.l1) / (inverse_rate + k.l2);
  }
}

}  // namespace

PADDLE_MULTIVERSION
void update_sgd(const Bounds& bounds, float rate, Batch batch) {
  sweep<0>(bounds, batch, Sgd{rate});
}

PADDLE_MULTIVERSION
void update_momentum(const Bounds& bounds, float rate, float momentum, Batch batch) {
  sweep<1>(bounds, batch, HeavyBall<0, Sgd>{{rate}, momentum});
}

PADDLE_MULTIVERSION
void update_adagrad(const Bounds& bounds, const Adaptive& k, Batch batch) {
  sweep_adaptive<1>(bounds, k.momentum, batch, AdagradRule{k});
}

PADDLE_MULTIVERSION
void update_decayed_adagrad(const Bounds& bounds, const Adaptive& k, Batch batch) {
  sweep_adaptive<1>(bounds, k.momentum, batch, DecayedAdagradRule{k});
}

PADDLE_MULTIVERSION
void update_adadelta(const Bounds& bounds, const Adaptive& k, Batch batch) {
  sweep_adaptive<2>(bounds, k.momentum, batch, AdadeltaRule{k});
}

PADDLE_MULTIVERSION
void update_rmsprop(const Bounds& bounds, const Adaptive& k, Batch batch) {
  sweep_adaptive<1>(bounds, k.momentum, batch, RmspropRule{k});
}

PADDLE_MULTIVERSION
void update_centered_rmsprop(const Bounds& bounds, const Adaptive& k, Batch batch) {
  sweep_adaptive<2>(bounds, k.momentum, batch, CenteredRmspropRule{k});
}

PADDLE_MULTIVERSION
void update_adam(const Bounds& bounds, const Moments& k, Batch batch) {
  sweep<2>(bounds, batch, AdamRule{k});
}

PADDLE_MULTIVERSION
void update_adamax(const Bounds& bounds, const Moments& k, Batch batch) {
  sweep<2>(bounds, batch, AdamaxRule{k});
}

PADDLE_MULTIVERSION
void update_ftrl(float clip, const Ftrl& constants, Batch batch) {
  for (const Elements& elements : batch) sweep_ftrl(clip, constants, elements);
}

PADDLE_MULTIVERSION
void update_average(float weight, std::size_t size, const float* value, float* average) {
#pragma GCC ivdep
  for (std::size_t i = 0; i < size; ++i) average[i] += weight * (value[i] - average[i]);
}

}  // namespace paddle::optim
