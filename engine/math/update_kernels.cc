#include "engine/math/update_kernels.h"

#include <iterator>

#include "base/multiversion.h"

// Inlined into each version of its caller, so that it is compiled for that instruction set.
#define PADDLE_INLINE [[gnu::always_inline]] inline

namespace paddle::optim {
namespace {

// Updates the elements and returns the largest of all new values and states.
template <class Rule>
PADDLE_INLINE Largest sweep_one(const Constants& k, const Elements& e, const Rule& the_rule) {
  constexpr std::size_t kPlanes = Rule::kPlanes;
  static_assert(kPlanes <= kPlanesMax);
  const Rule rule = the_rule;
  const Constants constants = k;
  float* const w = e.value;
  const float* const g = e.gradient;
  float* const s0 = e.state;
  float* const s1 = e.state + (kPlanes > 1 ? e.plane_stride : 0);
  float* const s2 = e.state + (kPlanes > 2 ? 2 * e.plane_stride : 0);
  const std::size_t size = e.size;
  Largest largest;
#pragma GCC ivdep
  for (std::size_t i = 0; i < size; ++i) {
    State state{};
    if constexpr (kPlanes > 0) state[0] = s0[i];
    if constexpr (kPlanes > 1) state[1] = s1[i];
    if constexpr (kPlanes > 2) state[2] = s2[i];
    const float value = updated(constants, rule, w[i], g[i], state);
    w[i] = value;
    if constexpr (kPlanes > 0) s0[i] = state[0];
    if constexpr (kPlanes > 1) s1[i] = state[1];
    if constexpr (kPlanes > 2) s2[i] = state[2];
    largest.raise(value);
    if constexpr (kPlanes > 0) largest.raise(state[0]);
    if constexpr (kPlanes > 1) largest.raise(state[1]);
    if constexpr (kPlanes > 2) largest.raise(state[2]);
  }
  return largest;
}

struct Sweep {
  const Constants& k;
  Batch batch;
  bool& is_finite;

  template <class Rule>
  PADDLE_INLINE void operator()(const Rule& rule) const {
    bool all = true;
    for (const Elements& elements : batch) all &= sweep_one(k, elements, rule).is_finite();
    is_finite = all;
  }
};

PADDLE_INLINE bool sweep(Formula formula, const Step& step, Batch batch) {
  bool is_finite = true;
  with_rule(formula, step, Sweep{step.k, batch, is_finite});
  return is_finite;
}

// One function for each formula: a single function would need longer to reach its loop than to
// update a short row.
PADDLE_MULTIVERSION
bool update_sgd(const Step& step, Batch batch) {
  return sweep(Formula::kSgd, step, batch);
}

PADDLE_MULTIVERSION
bool update_momentum(const Step& step, Batch batch) {
  return sweep(Formula::kMomentum, step, batch);
}

PADDLE_MULTIVERSION
bool update_torch_momentum(const Step& step, Batch batch) {
  return sweep(Formula::kTorchMomentum, step, batch);
}

PADDLE_MULTIVERSION
bool update_adagrad(const Step& step, Batch batch) {
  return sweep(Formula::kAdagrad, step, batch);
}

PADDLE_MULTIVERSION
bool update_decayed_adagrad(const Step& step, Batch batch) {
  return sweep(Formula::kDecayedAdagrad, step, batch);
}

PADDLE_MULTIVERSION
bool update_adadelta(const Step& step, Batch batch) {
  return sweep(Formula::kAdadelta, step, batch);
}

PADDLE_MULTIVERSION
bool update_rmsprop(const Step& step, Batch batch) {
  return sweep(Formula::kRmsprop, step, batch);
}

PADDLE_MULTIVERSION
bool update_adam(const Step& step, Batch batch) {
  return sweep(Formula::kAdam, step, batch);
}

PADDLE_MULTIVERSION
bool update_adamw(const Step& step, Batch batch) {
  return sweep(Formula::kAdamw, step, batch);
}

PADDLE_MULTIVERSION
bool update_adamax(const Step& step, Batch batch) {
  return sweep(Formula::kAdamax, step, batch);
}

PADDLE_MULTIVERSION
bool update_ftrl(const Step& step, Batch batch) {
  return sweep(Formula::kFtrl, step, batch);
}

// By Formula.
constexpr UpdateKernel kKernels[] = {
    update_sgd,      update_momentum, update_torch_momentum, update_adagrad, update_decayed_adagrad,
    update_adadelta, update_rmsprop,  update_adam,           update_adamw,   update_adamax,
    update_ftrl,
};
static_assert(std::size(kKernels) == static_cast<std::size_t>(Formula::kFtrl) + 1,
              "kFtrl is the last formula, and each has a kernel");

}  // namespace

UpdateKernel update_kernel(Formula formula) {
  return kKernels[static_cast<std::size_t>(formula)];
}

PADDLE_MULTIVERSION
bool update_average(float weight, std::size_t size, const float* value, float* average) {
  Largest largest;
#pragma GCC ivdep
  for (std::size_t i = 0; i < size; ++i) {
    average[i] = moved_average(weight, value[i], average[i]);
    largest.raise(average[i]);
  }
  return largest.is_finite();
}

PADDLE_MULTIVERSION
bool all_below(std::span<const float> values, float limit) {
  Largest largest;
  for (const float value : values) largest.raise(value);
  return largest.is_below(limit);
}

}  // namespace paddle::optim
