#include "engine/math/optimizer.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/check.h"
#include "base/named_rows.h"
#include "base/text.h"
#include "engine/math/schedule.h"

namespace paddle::optim {
namespace {

using wire::Optimizer;

constexpr float kAdamEpsilon = 1e-8F;

constexpr std::array<Method, 11> kMethods{{
    {"sgd", 0, 0, Formula::kSgd},
    {"momentum", 1, kMomentum, Formula::kMomentum},
    {"torch_momentum", 1, kMomentum | kCountsUpdates, Formula::kTorchMomentum},
    {"adagrad", 1, kMomentum | kHeavyBall | kEpsilon, Formula::kAdagrad},
    {"decayed_adagrad", 1, kMomentum | kHeavyBall | kRho | kEpsilon, Formula::kDecayedAdagrad},
    {"adadelta", 2, kMomentum | kHeavyBall | kRho | kEpsilon, Formula::kAdadelta, 1.0F},
    {"rmsprop", 1, kMomentum | kHeavyBall | kRho | kEpsilon | kCentered, Formula::kRmsprop},
    {"adam", 2, kBetas | kEpsilon | kCountsUpdates, Formula::kAdam, 0.01F, kAdamEpsilon},
    {"adamw", 2, kBetas | kEpsilon | kWeightDecay | kCountsUpdates, Formula::kAdamw, 0.01F,
     kAdamEpsilon},
    {"adamax", 2, kBetas | kEpsilon | kCountsUpdates, Formula::kAdamax, 0.01F, kAdamEpsilon},
    {"ftrl", 3, kBeta | kDividesByRate, Formula::kFtrl},
}};

constexpr std::array<Option, 7> kOptions{{
    {"momentum", kMomentum, true, &Optimizer::has_momentum, &Optimizer::momentum,
     &Optimizer::set_momentum},
    {"beta1", kBetas, true, &Optimizer::has_beta1, &Optimizer::beta1, &Optimizer::set_beta1},
    {"beta2", kBetas, true, &Optimizer::has_beta2, &Optimizer::beta2, &Optimizer::set_beta2},
    {"epsilon", kEpsilon, false, &Optimizer::has_epsilon, &Optimizer::epsilon,
     &Optimizer::set_epsilon},
    {"rho", kRho, true, &Optimizer::has_rho, &Optimizer::rho, &Optimizer::set_rho},
    {"beta", kBeta, false, &Optimizer::has_beta, &Optimizer::beta, &Optimizer::set_beta},
    {"weight_decay", kWeightDecay, true, &Optimizer::has_weight_decay, &Optimizer::weight_decay,
     &Optimizer::set_weight_decay},
}};

constexpr float kNone = std::numeric_limits<float>::infinity();

bool is_centered(const wire::Optimizer& optimizer) {
  return !optimizer.has_centered() || optimizer.centered();
}

// Comparisons are written so that NaN is refused too.
Status check_range(std::string_view name, float value, float below) {
  if (value >= 0 && value < below) return {};
  return Error{Errc::kUsage, fmt::format("optimizer {} is {}, must be at least 0 and below {}",
                                         name, value, below)};
}

Status check_positive(std::string_view name, float value) {
  if (value > 0 && std::isfinite(value)) return {};
  return Error{Errc::kUsage, fmt::format("optimizer {} is {}, must be above 0", name, value)};
}

std::uint64_t window_min(const wire::ModelAverage& average) {
  if (average.window_min() > 0) return average.window_min();
  return average.window_max() > 0 ? std::min(kAverageWindowMinDefault, average.window_max())
                                  : kAverageWindowMinDefault;
}

std::uint64_t window_max(const wire::ModelAverage& average) {
  if (average.window_max() > 0) return average.window_max();
  return std::max(kAverageWindowMaxDefault, average.window_min());
}

AverageWindow window_of(const wire::ModelAverage& average) {
  return {static_cast<double>(average.window()), static_cast<double>(window_min(average)),
          static_cast<double>(window_max(average))};
}

Status check_average(const wire::ModelAverage& average) {
  // The comparison is negated so that it refuses NaN too.
  if (!(average.window() >= 0 && average.window() <= 1)) {
    return Error{Errc::kUsage,
                 fmt::format("average_window is {}, must be 0 to 1", average.window())};
  }
  if (window_min(average) > window_max(average)) {
    return Error{Errc::kUsage, fmt::format("min_average_window {} is over max_average_window {}",
                                           window_min(average), window_max(average))};
  }
  return {};
}

}  // namespace

std::span<const Method> methods() {
  return kMethods;
}

std::span<const Option> options() {
  return kOptions;
}

std::size_t state_width(const wire::Optimizer& optimizer) {
  const Method* const method = find_row(methods(), optimizer.method());
  if (method == nullptr) return 0;
  return method->planes + (method->has(kCentered) && is_centered(optimizer) ? 1 : 0) +
         (method->has(kHeavyBall) && optimizer.momentum() > 0 ? 1 : 0) +
         (has_average(optimizer) ? 1 : 0);
}

bool has_average(const wire::Optimizer& optimizer) {
  return optimizer.average().window() > 0;
}

bool counts_updates(const wire::Optimizer& optimizer) {
  const Method* const method = find_row(methods(), optimizer.method());
  return (method != nullptr && method->has(kCountsUpdates)) || has_average(optimizer);
}

bool same_state(const wire::Optimizer& a, const wire::Optimizer& b) {
  return a.method() == b.method() && is_centered(a) == is_centered(b) &&
         (a.momentum() > 0) == (b.momentum() > 0) && has_average(a) == has_average(b);
}

float average_weight(const wire::ModelAverage& average, std::uint64_t count) {
  return window_of(average).weight(count);
}

void swap_average(std::span<float> value, std::span<float> state) {
  PADDLE_CHECK(state.size() >= value.size());
  std::swap_ranges(value.begin(), value.end(), state.end() - std::ssize(value));
}

Status validate(const wire::Optimizer& optimizer) {
  const Method* const method = find_row(methods(), optimizer.method());
  if (method == nullptr) {
    const auto names = row_names(methods());
    const std::string suggestion = nearest(optimizer.method(), names);
    return Error{
        Errc::kUsage,
        fmt::format("unknown optimizer '{}'{}", escape_control(optimizer.method()),
                    suggestion.empty() ? "" : fmt::format(", did you mean '{}'?", suggestion)),
        fmt::format("the methods are {}", fmt::join(names, ", "))};
  }
  const float rate = optimizer.learning_rate();
  if (rate != 0 || method->has(kDividesByRate)) {
    PADDLE_TRY_STATUS(check_positive("learning_rate", rate));
  }
  for (const Option& option : options()) {
    if (!(optimizer.*option.has)()) continue;
    const float value = (optimizer.*option.get)();
    PADDLE_TRY_STATUS(option.is_fraction ? check_range(option.name, value, 1.0F)
                                         : check_positive(option.name, value));
  }
  PADDLE_TRY_STATUS(check_range("l1", optimizer.l1(), kNone));
  PADDLE_TRY_STATUS(check_range("l2", optimizer.l2(), kNone));
  PADDLE_TRY_STATUS(check_range("clip_value", optimizer.clip_value(), kNone));
  PADDLE_TRY_STATUS(check_range("clip_norm", optimizer.clip_norm(), kNone));
  PADDLE_TRY_STATUS(check_range("clip_global_norm", optimizer.clip_global_norm(), kNone));
  PADDLE_TRY_STATUS(validate(optimizer.schedule()));
  return check_average(optimizer.average());
}

UpdateRule::UpdateRule(const wire::Optimizer& optimizer, const wire::ParameterSpec& spec)
    : is_static_(spec.is_static()),
      state_width_(optim::state_width(optimizer)),
      average_(window_of(optimizer.average())) {
  const Method* const method = find_row(methods(), optimizer.method());
  PADDLE_CHECK(method != nullptr);
  step_.formula = method->formula;
  counts_ = method->has(kCountsUpdates);
  Constants& k = step_.k;
  k.rate = spec.learning_rate();
  k.clip = spec.has_clip_value() ? spec.clip_value() : optimizer.clip_value();
  if (k.clip == 0) k.clip = kNone;
  k.l1 = spec.has_l1() ? spec.l1() : optimizer.l1();
  k.l2 = spec.has_l2() ? spec.l2() : optimizer.l2();
  k.momentum = optimizer.has_momentum() ? optimizer.momentum() : kMomentumDefault;
  k.beta1 = optimizer.has_beta1() ? optimizer.beta1() : kBeta1Default;
  k.beta2 = optimizer.has_beta2() ? optimizer.beta2() : kBeta2Default;
  k.epsilon = optimizer.has_epsilon() ? optimizer.epsilon() : method->epsilon;
  k.rho = optimizer.has_rho() ? optimizer.rho() : kRhoDefault;
  k.beta = optimizer.has_beta() ? optimizer.beta() : kFtrlBetaDefault;
  k.weight_decay = optimizer.has_weight_decay() ? optimizer.weight_decay() : kWeightDecayDefault;
  k.is_centered = is_centered(optimizer);
  if (spec.is_delta()) {
    counts_ = false;
    step_ = {.k = {.rate = 1, .clip = kNone}};
  }
  update_ = update_kernel(step_.formula);
}

void UpdateRule::start(std::span<const float> value, std::span<float> state) const {
  PADDLE_CHECK(state.size() == state_width_ * value.size());
  std::fill(state.begin(), state.end(), 0.0F);
  if (has_average()) std::copy(value.begin(), value.end(), state.end() - std::ssize(value));
}

bool UpdateRule::apply(float learning_rate, std::uint64_t count, std::span<float> value,
                       std::span<const float> gradient, std::span<float> state) const {
  PADDLE_CHECK(count > 0 && gradient.size() == value.size() &&
               state.size() == state_width_ * value.size());
  const Elements elements{value.size(), value.data(), gradient.data(), state.data(), value.size()};
  return apply(learning_rate, count, {&elements, 1});
}

bool UpdateRule::apply(float learning_rate, std::uint64_t count, Batch batch) const {
  bool is_finite = update_(step(learning_rate, count), batch);
  if (!has_average()) return is_finite;
  const float weight = average_.weight(count);
  for (const Elements& e : batch) {
    float* const average = e.state + (state_width_ - 1) * e.plane_stride;
    is_finite &= update_average(weight, e.size, e.value, average);
  }
  return is_finite;
}

}  // namespace paddle::optim
