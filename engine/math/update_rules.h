// Formulas of the optimizers' methods (optimizer.h) for one element of a parameter. The bits are
// the same on every machine and on a card: nothing is reassociated, and no multiply-add is fused.
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "base/multiversion.h"
#include "engine/math/power.h"

namespace paddle::optim {

// The numbers in a method's formula.
struct Constants {
  float rate = 0;
  // Every method but ftrl sees a gradient g limited to [-clip, clip], plus l2 w. Afterwards w moves
  // towards 0 by at most l1 times the element's own learning rate: the proximal step of l1 |w|
  // (Duchi and Singer, 2009).
  float clip = 0;  // infinity: no limit
  float l1 = 0;
  float l2 = 0;
  float momentum = 0;
  float beta1 = 0;
  float beta2 = 0;
  float epsilon = 0;
  float rho = 0;
  float beta = 0;
  float weight_decay = 0;
  bool is_centered = false;
};

enum class Formula : std::uint32_t {
  kSgd,
  kMomentum,
  kTorchMomentum,
  kAdagrad,
  kDecayedAdagrad,
  kAdadelta,
  kRmsprop,
  kAdam,
  kAdamw,
  kAdamax,
  kFtrl,
};

// All numbers of an update that do not depend on the element. Elements that share a step have had
// the same number of updates.
struct Step {
  Constants k;
  Formula formula = Formula::kSgd;
  // 1 / (1 - beta^t), for adam and adamw.
  float correction1 = 1;
  float correction2 = 1;
};

// Largest number of planes of state, without the plane of the average.
constexpr std::size_t kPlanesMax = 3;
using State = float[kPlanesMax];

// The change of one element by a method's formula.
struct Change {
  float step;  // w += step
  float rate;  // the element's own learning rate
};

PADDLE_HD_INLINE float at_most(float x, float most) {
  return most < x ? most : x;
}
PADDLE_HD_INLINE float at_least(float x, float least) {
  return x < least ? least : x;
}
PADDLE_HD_INLINE float limit(float g, float most) {
  return at_most(at_least(g, -most), most);
}
// Moves x towards 0 by at most `most`; returns exactly x if `most` is 0.
PADDLE_HD_INLINE float shrink(float x, float most) {
  return x - limit(x, most);
}

// The largest absolute value of several numbers, as bits. The bits of absolute values have the
// order of the values, with infinity and NaN last.
class Largest {
 public:
  PADDLE_HD_INLINE void raise(float value) {
    const std::int32_t bits = std::bit_cast<std::int32_t>(value) & 0x7fffffff;
    bits_ = bits > bits_ ? bits : bits_;
  }
  PADDLE_HD_INLINE bool is_below(float limit) const {
    return bits_ < std::bit_cast<std::int32_t>(limit);
  }
  PADDLE_HD_INLINE bool is_finite() const {
    return is_below(std::numeric_limits<float>::infinity());
  }

 private:
  std::int32_t bits_ = 0;
};

// A rule updates the value w and the first kPlanes planes of state of an element from its gradient.
// The rules of all methods but ftrl have a function change(g, state): clipping and l2 are applied
// before it, l1 after it.
template <std::size_t kOwnPlanes>
struct ChangeRule {
  static constexpr std::size_t kPlanes = kOwnPlanes;
  Constants k;
};

struct Sgd : ChangeRule<0> {
  PADDLE_HD_INLINE Change change(float g, State& /*s*/) const { return {-(k.rate * g), k.rate}; }
};

// Applies heavy-ball momentum to the step of another rule. The momentum is in the plane after the
// rule's own planes.
template <class Rule>
struct HeavyBall {
  static constexpr std::size_t kPlanes = Rule::kPlanes + 1;
  Rule rule;
  PADDLE_HD_INLINE Change change(float g, State& s) const {
    const Change change = rule.change(g, s);
    s[Rule::kPlanes] = rule.k.momentum * s[Rule::kPlanes] + change.step;
    return {s[Rule::kPlanes], change.rate};
  }
};

struct Adagrad : ChangeRule<1> {
  PADDLE_HD_INLINE Change change(float g, State& s) const {
    s[0] += g * g;
    const float rate = k.rate / (std::sqrt(s[0]) + k.epsilon);
    return {-(rate * g), rate};
  }
};

struct DecayedAdagrad : ChangeRule<1> {
  PADDLE_HD_INLINE Change change(float g, State& s) const {
    s[0] = k.rho * s[0] + (1.0F - k.rho) * g * g;
    const float rate = k.rate / (std::sqrt(s[0]) + k.epsilon);
    return {-(rate * g), rate};
  }
};

struct Adadelta : ChangeRule<2> {
  PADDLE_HD_INLINE Change change(float g, State& s) const {
    s[0] = k.rho * s[0] + (1.0F - k.rho) * g * g;
    const float scale = std::sqrt((s[1] + k.epsilon) / (s[0] + k.epsilon));
    const float change = scale * g;
    s[1] = k.rho * s[1] + (1.0F - k.rho) * change * change;
    return {-(k.rate * change), k.rate * scale};
  }
};

struct Rmsprop : ChangeRule<1> {
  PADDLE_HD_INLINE Change change(float g, State& s) const {
    s[0] = k.rho * s[0] + (1.0F - k.rho) * g * g;
    const float rate = k.rate / std::sqrt(s[0] + k.epsilon);
    return {-(rate * g), rate};
  }
};

struct CenteredRmsprop : ChangeRule<2> {
  PADDLE_HD_INLINE Change change(float g, State& s) const {
    s[0] = k.rho * s[0] + (1.0F - k.rho) * g * g;
    s[1] = k.rho * s[1] + (1.0F - k.rho) * g;
    // Rounding can take the variance of a constant gradient below 0.
    const float variance = at_least(s[0] - s[1] * s[1], 0.0F);
    const float rate = k.rate / std::sqrt(variance + k.epsilon);
    return {-(rate * g), rate};
  }
};

struct Adam : ChangeRule<2> {
  float correction1;
  float correction2;
  PADDLE_HD_INLINE Change change(float g, State& s) const {
    s[0] = k.beta1 * s[0] + (1.0F - k.beta1) * g;
    s[1] = k.beta2 * s[1] + (1.0F - k.beta2) * g * g;
    const float rate = k.rate / (std::sqrt(s[1] * correction2) + k.epsilon);
    return {-(rate * (s[0] * correction1)), rate};
  }
};

struct Adamw : Adam {
  float decay;  // the part of w that an update subtracts
};

struct Adamax : ChangeRule<2> {
  PADDLE_HD_INLINE Change change(float g, State& s) const {
    s[0] = k.beta1 * s[0] + (1.0F - k.beta1) * g;
    s[1] = at_least(k.beta2 * s[1], std::fabs(g));
    const float rate = k.rate / (s[1] + k.epsilon);
    return {-(rate * s[0]), rate};
  }
};

struct Ftrl {
  static constexpr std::size_t kPlanes = 3;
  Constants k;
};

// The value after the update.
template <class Rule>
PADDLE_HD_INLINE float updated(const Constants& k, const Rule& rule, float w, float gradient,
                               State& s) {
  const Change change = rule.change(limit(gradient, k.clip) + k.l2 * w, s);
  float value = w;
  if constexpr (requires { rule.decay; }) value = w - rule.decay * w;
  return shrink(value + change.step, k.l1 * change.rate);
}
// The planes of state are n, z and s. The formula itself applies l1 and l2.
PADDLE_HD_INLINE float updated(const Constants& k, const Ftrl& /*rule*/, float w, float gradient,
                               State& s) {
  const float g = limit(gradient, k.clip);
  s[0] += g * g;
  const float inverse_rate = (k.beta + std::sqrt(s[0])) / k.rate;
  s[1] += g - (inverse_rate - s[2]) * w;
  s[2] = inverse_rate;
  return 0.0F - shrink(s[1], k.l1) / (inverse_rate + k.l2);
}

PADDLE_HD_INLINE float moved_average(float weight, float value, float average) {
  return average + weight * (value - average);
}

// Window of the average of a value (average_weight() in optimizer.h), in updates.
struct AverageWindow {
  double fraction = 0;  // part of the updates so far; 0: no average is kept
  double least = 0;
  double most = 0;

  // Weight of the update with the number `count`, from 1.
  PADDLE_HD_INLINE float weight(std::uint64_t count) const {
    const auto n = static_cast<double>(count);
    const double reach = fraction * n < most ? fraction * n : most;
    const double wanted = reach < least ? least : reach;
    return static_cast<float>(1 / (wanted < n ? wanted : n));
  }
};

// 1 / (1 - beta^count)
PADDLE_HD_INLINE float correction(float beta, std::uint64_t count) {
  return static_cast<float>(1 / (1 - integer_power(static_cast<double>(beta), count)));
}
// Puts the number of the update, from 1, into the step of a method that counts them.
PADDLE_HD_INLINE void set_number(Step& step, std::uint64_t count) {
  Constants& k = step.k;
  if (step.formula == Formula::kTorchMomentum) {
    if (count > 1) k.rate *= 1.0F - k.momentum;
  } else if (step.formula == Formula::kAdamax) {
    k.rate *= correction(k.beta1, count);
  } else {
    step.correction1 = correction(k.beta1, count);
    step.correction2 = correction(k.beta2, count);
  }
}

template <class Rule, class Use>
PADDLE_HD_INLINE void with_momentum(const Rule& rule, const Use& use) {
  if (rule.k.momentum > 0) {
    use(HeavyBall<Rule>{rule});
  } else {
    use(rule);
  }
}
// Calls use(rule) with the rule of a formula. Does not call it if the step changes nothing.
template <class Use>
PADDLE_HD_INLINE void with_rule(Formula formula, const Step& step, const Use& use) {
  const Constants& k = step.k;
  switch (formula) {
    case Formula::kSgd:
      return use(Sgd{k});
    case Formula::kMomentum:
    case Formula::kTorchMomentum:
      return use(HeavyBall<Sgd>{{k}});
    case Formula::kAdagrad:
      return with_momentum(Adagrad{k}, use);
    case Formula::kDecayedAdagrad:
      return with_momentum(DecayedAdagrad{k}, use);
    case Formula::kAdadelta:
      return with_momentum(Adadelta{k}, use);
    case Formula::kRmsprop:
      if (k.is_centered) return with_momentum(CenteredRmsprop{k}, use);
      return with_momentum(Rmsprop{k}, use);
    case Formula::kAdam:
      return use(Adam{{k}, step.correction1, step.correction2});
    case Formula::kAdamw:
      return use(Adamw{{{k}, step.correction1, step.correction2}, k.rate * k.weight_decay});
    case Formula::kAdamax:
      return use(Adamax{k});
    case Formula::kFtrl:
      // With a rate of 0, which the formula cannot divide by, values do not change.
      if (k.rate > 0) use(Ftrl{k});
      return;
  }
}

}  // namespace paddle::optim
