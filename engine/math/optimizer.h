// Update rules of optimizers: pure functions over one block or row.
//
// For value w, gradient g (a mean over the round's examples), rate r = the schedule's learning rate
// times the parameter's, and state that starts at 0:
//   sgd              w -= r g
//   momentum         m = momentum m - r g; w += m
//   torch_momentum   the same with r (1 - momentum) from the second update on (v0.10)
//   adagrad          a += g^2; w -= r g / (sqrt(a) + epsilon)         Duchi, Hazan, Singer 2011
//   decayed_adagrad  a = rho a + (1 - rho) g^2; then as adagrad                      Fluid
//   adadelta         a as above; d = sqrt((u + epsilon) / (a + epsilon)) g;          Zeiler 2012
//                    u = rho u + (1 - rho) d^2; w -= r d
//   rmsprop          a as above; f = rho f + (1 - rho) g;                            Graves 2013
//                    w -= r g / sqrt(a - f^2 + epsilon); without f unless centered
//   adam             m = beta1 m + (1 - beta1) g; v = beta2 v + (1 - beta2) g^2;     Kingma 2015
//                    w -= r m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + epsilon)
//   adamw            m, v as above;                                      Loshchilov, Hutter 2019
//                    w -= r (m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + epsilon) + decay w)
//   adamax           m as above; u = max(beta2 u, |g|);                              the same, 7.1
//                    w -= r m / (1 - beta1^t) / (u + epsilon)
//   ftrl             n += g^2; s = (beta + sqrt(n)) / r; z += g - (s - s before) w;  McMahan 2013
//                    w = -sign(z) max(|z| - l1, 0) / (s + l2)
// With a momentum above 0, adagrad, decayed_adagrad, adadelta and rmsprop apply it to their step d:
// m = momentum m + d; w += m. Before the formula of every method but ftrl, which regularises
// itself, g is limited to [-clip_value, clip_value], then g += l2 w. After it w moves towards 0 by
// at most l1 times the element's own learning rate (r / (sqrt(a) + epsilon) for adagrad, and so
// on), without crossing it.
//
// adamw's decay = weight_decay acts on w directly. l2 adds to the gradient instead, which adam
// divides by sqrt(v): weights with large gradients would decay less (the paper's algorithm 2, with
// the schedule in r).
//
// t counts the updates of this block or row. A row of a sparse table is updated, decayed and shrunk
// only in rounds that name it, and counts those ("lazy"); a dense parameter is in every round. A
// table whose rows are all named in every round gets the same bits as a dense parameter.
//
// Differences from PaddlePaddle v0.10: every method follows the schedule (adagrad, adam and adamax
// did not) and has L2 (adam's and adamax's was ignored); L1 works with momentum (refused there);
// adagrad's epsilon is outside the root and nothing is folded every 16384 updates; rmsprop starts
// from a = 0 without a special first update; adamax has an epsilon; clip_value applies to the mean
// of the trainers' gradients, not their sum; a row gets no later update for rounds that do not name
// it. Difference from Fluid: l2 in ftrl adds l2 / 2 w^2 to the cost, as in the other methods, not
// l2 w^2. Differences from the ftrl of the paper: s may change with the schedule, and an initial w
// stays until a gradient moves it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/check.h"
#include "base/result.h"
#include "engine/math/update_kernels.h"
#include "proto/parameters.pb.h"

namespace paddle::optim {

// Properties of a method; the first ones are options that it reads.
enum Trait : std::uint32_t {
  kMomentum = 1U << 0U,
  kRho = 1U << 1U,
  kBetas = 1U << 2U,  // beta1 and beta2
  kEpsilon = 1U << 3U,
  kBeta = 1U << 4U,
  kCentered = 1U << 5U,  // one plane more unless `centered` is false
  kWeightDecay = 1U << 6U,
  // A momentum above 0 is applied to the step and needs one more plane.
  kHeavyBall = 1U << 7U,
  kDividesByRate = 1U << 9U,  // divides by the learning rate, which must not be 0
  kCountsUpdates = 1U << 8U,  // an update depends on how many came before it
};

struct Method {
  std::string_view name;
  std::size_t planes = 0;    // floats of state per element, besides those that traits add
  std::uint32_t traits = 0;  // a set of Trait
  Formula formula = Formula::kSgd;
  float learning_rate = 0.01F;  // defaults
  float epsilon = 1e-6F;

  bool has(std::uint32_t trait) const { return (traits & trait) != 0; }
};
std::span<const Method> methods();

// A number that only some methods read: a key of [optimizer] and of a snapshot's MANIFEST.
struct Option {
  std::string_view name;
  Trait trait;       // trait of the methods that read it
  bool is_fraction;  // in [0, 1); else above 0
  bool (wire::Optimizer::*has)() const;
  float (wire::Optimizer::*get)() const;
  void (wire::Optimizer::*set)(float);
};
// Options in the order of a MANIFEST.
std::span<const Option> options();

// Defaults of Optimizer fields that are not set; others are in the table of methods.
constexpr float kMomentumDefault = 0.0F;
constexpr float kBeta1Default = 0.9F;
constexpr float kBeta2Default = 0.999F;
constexpr float kRhoDefault = 0.95F;
constexpr float kFtrlBetaDefault = 1.0F;
constexpr float kWeightDecayDefault = 0.01F;

// Floats of state per element, the average's plane included; 0 for an unknown method.
std::size_t state_width(const wire::Optimizer& optimizer);
bool has_average(const wire::Optimizer& optimizer);
// True when an update depends on how many came before it.
bool counts_updates(const wire::Optimizer& optimizer);
// True if an update by one optimizer can continue from the state of the other.
bool same_state(const wire::Optimizer& a, const wire::Optimizer& b);

constexpr std::uint64_t kAverageWindowMinDefault = 10000;   // updates, as in v0.10
constexpr std::uint64_t kAverageWindowMaxDefault = 100000;  // updates; float32 resolves 1 / k of it

// The weight 1 / k of update `count` (from 1) of a block or row in its average:
//   average += (value - average) / k,  k = min(n, max(window_min, min(window_max, window n)))
// with n = count. It is the plain mean of the first window_min updates, then an average over about
// the last fraction `window` of all updates (polynomial-decay averaging: Shamir and Zhang, 2013).
// v0.10 keeps three sums and a uniform average over window n to 2 window n updates instead. One
// plane that depends on the count only also serves the rows of a sparse table, each of which counts
// its own updates. REQUIRES: `average` is valid and its window is above 0.
float average_weight(const wire::ModelAverage& average, std::uint64_t count);

// Exchanges a value and its average, the last plane of `state`. A snapshot holds them exchanged, so
// that a reader of values gets the average and training resumes from the value.
void swap_average(std::span<float> value, std::span<float> state);

// kUsage: an unknown method or schedule (with a suggestion), or a value out of its range.
Status validate(const wire::Optimizer& optimizer);

// Update rule of one parameter: the optimizer with the parameter's own rate and bounds, resolved
// once.
class UpdateRule {
 public:
  // A parameter with is_delta() gets the rule w -= learning_rate g, and its average. REQUIRES: both
  // arguments are valid.
  UpdateRule(const wire::Optimizer& optimizer, const wire::ParameterSpec& spec);

  bool is_static() const { return is_static_; }
  // Number of planes of value.size() floats each; the average is the last one.
  std::size_t state_width() const { return state_width_; }
  bool has_average() const { return average_.fraction > 0; }

  // Fills the state before the first update: 0, but the average starts as the value.
  void start(std::span<const float> value, std::span<float> state) const;

  // Applies one gradient in place. learning_rate is the schedule's (schedule.h). count is the
  // 1-based number of this update of the block or row; any number above 0 if neither
  // counts_updates() nor has_average(). The spans are disjoint; gradient.size() == value.size() and
  // state.size() == state_width() * value.size() are checked. False if a new value or its state is
  // not finite.
  bool apply(float learning_rate, std::uint64_t count, std::span<float> value,
             std::span<const float> gradient, std::span<float> state) const;
  // The same for many blocks or rows, all with this count. Every state has state_width() planes.
  bool apply(float learning_rate, std::uint64_t count, Batch batch) const;

  // For code that applies the rule itself: the step of the update. After the update, that code
  // updates the average by moved_average() with average_weight().
  Step step(float learning_rate, std::uint64_t count) const {
    PADDLE_CHECK(count > 0);
    // Does not copy the result of unnumbered_step(): a second copy would take as long as the update
    // of a short row.
    Step step = step_;
    step.k.rate *= learning_rate;
    if (counts_) set_number(step, count);
    return step;
  }
  float average_weight(std::uint64_t count) const { return average_.weight(count); }
  // The step without the number of the update. The caller must call set_number() if
  // counts_updates().
  Step unnumbered_step(float learning_rate) const {
    Step step = step_;
    step.k.rate *= learning_rate;
    return step;
  }
  bool counts_updates() const { return counts_; }
  const AverageWindow& average() const { return average_; }

 private:
  bool counts_;  // the formula needs the number of the update
  UpdateKernel update_;
  Step step_;  // k.rate is the parameter's factor of the learning rate
  bool is_static_;
  std::size_t state_width_;
  AverageWindow average_;
};

}  // namespace paddle::optim
