#include "engine/optim/optimizer.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/check.h"
#include "base/text.h"
#include "engine/optim/model_average.h"
#include "engine/optim/power.h"
#include "engine/optim/schedule.h"
#include "engine/optim/update_kernels.h"

namespace paddle::optim {
namespace {

// In the order of Method.
constexpr std::array<std::string_view, 10> kNames = {
    "sgd",      "momentum", "torch_momentum", "adagrad", "decayed_adagrad",
    "adadelta", "rmsprop",  "adam",           "adamax",  "ftrl"};

constexpr float kNone = std::numeric_limits<float>::infinity();

std::optional<Method> method_of(const wire::Optimizer& optimizer) {
  const auto* const found = std::find(kNames.begin(), kNames.end(), optimizer.method());
  if (found == kNames.end()) return std::nullopt;
  return static_cast<Method>(found - kNames.begin());
}

bool is_adaptive(Method method) {
  return method == Method::kAdagrad || method == Method::kDecayedAdagrad ||
         method == Method::kAdadelta || method == Method::kRmsprop;
}

bool is_centered(const wire::Optimizer& optimizer) {
  return !optimizer.has_centered() || optimizer.centered();
}

std::size_t planes_of(Method method, const wire::Optimizer& optimizer) {
  switch (method) {
    case Method::kSgd:
      return 0;
    case Method::kMomentum:
    case Method::kTorchMomentum:
    case Method::kAdagrad:
    case Method::kDecayedAdagrad:
      return 1;
    case Method::kRmsprop:
      return is_centered(optimizer) ? 2 : 1;
    case Method::kAdadelta:
    case Method::kAdam:
    case Method::kAdamax:
      return 2;
    case Method::kFtrl:
      return 3;
  }
  return 0;
}

float epsilon_of(Method method, const wire::Optimizer& optimizer) {
  if (optimizer.has_epsilon()) return optimizer.epsilon();
  return method == Method::kAdam || method == Method::kAdamax ? kAdamEpsilonDefault
                                                              : kEpsilonDefault;
}

// 1 / (1 - beta^count)
float correction(float beta, std::uint64_t count) {
  return static_cast<float>(1 / (1 - integer_power(static_cast<double>(beta), count)));
}

// Negated comparisons refuse NaN too.
Status check_range(std::string_view name, float value, float below) {
  if (value >= 0 && value < below) return {};
  return Error{
      Errc::kUsage,
      fmt::format("optimizer {} is {}, must be at least 0 and below {}", name, value, below), ""};
}

Status check_positive(std::string_view name, float value) {
  if (value > 0 && std::isfinite(value)) return {};
  return Error{Errc::kUsage, fmt::format("optimizer {} is {}, must be above 0", name, value), ""};
}

}  // namespace

std::size_t state_width(const wire::Optimizer& optimizer) {
  const auto method = method_of(optimizer);
  if (!method) return 0;
  const bool has_plane_of_momentum = is_adaptive(*method) && optimizer.momentum() > 0;
  return planes_of(*method, optimizer) + (has_plane_of_momentum ? 1 : 0) +
         (has_average(optimizer) ? 1 : 0);
}

bool has_average(const wire::Optimizer& optimizer) {
  return optimizer.average().window() > 0;
}

bool counts_updates(const wire::Optimizer& optimizer) {
  const auto method = method_of(optimizer);
  return method == Method::kTorchMomentum || method == Method::kAdam || method == Method::kAdamax ||
         has_average(optimizer);
}

bool same_state(const wire::Optimizer& a, const wire::Optimizer& b) {
  return a.method() == b.method() && is_centered(a) == is_centered(b) &&
         (a.momentum() > 0) == (b.momentum() > 0) && has_average(a) == has_average(b);
}

Status validate(const wire::Optimizer& optimizer) {
  if (!method_of(optimizer)) {
    const std::string suggestion = nearest(optimizer.method(), kNames);
    return Error{
        Errc::kUsage,
        fmt::format("unknown optimizer '{}'{}", escape_control(optimizer.method()),
                    suggestion.empty() ? "" : fmt::format(", did you mean '{}'?", suggestion)),
        fmt::format("the methods are {}", fmt::join(kNames, ", "))};
  }
  PADDLE_TRY_STATUS(check_positive("learning_rate", optimizer.learning_rate()));
  PADDLE_TRY_STATUS(check_range("momentum", optimizer.momentum(), 1.0F));
  PADDLE_TRY_STATUS(check_range("beta1", optimizer.beta1(), 1.0F));
  PADDLE_TRY_STATUS(check_range("beta2", optimizer.beta2(), 1.0F));
  PADDLE_TRY_STATUS(check_range("rho", optimizer.rho(), 1.0F));
  if (optimizer.has_epsilon()) {
    PADDLE_TRY_STATUS(check_positive("epsilon", optimizer.epsilon()));
  }
  if (optimizer.has_beta()) PADDLE_TRY_STATUS(check_positive("beta", optimizer.beta()));
  PADDLE_TRY_STATUS(check_range("l1", optimizer.l1(), kNone));
  PADDLE_TRY_STATUS(check_range("l2", optimizer.l2(), kNone));
  PADDLE_TRY_STATUS(check_range("clip_value", optimizer.clip_value(), kNone));
  PADDLE_TRY_STATUS(check_range("clip_norm", optimizer.clip_norm(), kNone));
  PADDLE_TRY_STATUS(check_range("clip_global_norm", optimizer.clip_global_norm(), kNone));
  PADDLE_TRY_STATUS(validate(optimizer.schedule()));
  return validate(optimizer.average());
}

UpdateRule::UpdateRule(const wire::Optimizer& optimizer, const wire::ParameterSpec& spec)
    : is_static_(spec.is_static()),
      state_width_(optim::state_width(optimizer)),
      rate_(spec.learning_rate()),
      momentum_(optimizer.has_momentum() ? optimizer.momentum() : kMomentumDefault),
      beta1_(optimizer.has_beta1() ? optimizer.beta1() : kBeta1Default),
      beta2_(optimizer.has_beta2() ? optimizer.beta2() : kBeta2Default),
      rho_(optimizer.has_rho() ? optimizer.rho() : kRhoDefault),
      beta_(optimizer.has_beta() ? optimizer.beta() : kFtrlBetaDefault),
      is_centered_(is_centered(optimizer)),
      clip_value_(spec.has_clip_value() ? spec.clip_value() : optimizer.clip_value()),
      l1_(spec.has_l1() ? spec.l1() : optimizer.l1()),
      l2_(spec.has_l2() ? spec.l2() : optimizer.l2()),
      average_(optimizer.average()) {
  const auto method = method_of(optimizer);
  PADDLE_CHECK(method.has_value());
  method_ = *method;
  epsilon_ = epsilon_of(method_, optimizer);
  if (clip_value_ == 0) clip_value_ = kNone;
  if (!spec.is_delta()) return;
  method_ = Method::kSgd;
  rate_ = 1;
  clip_value_ = kNone;
  l1_ = l2_ = 0;
}

void UpdateRule::start(std::span<const float> value, std::span<float> state) const {
  PADDLE_CHECK(state.size() == state_width_ * value.size());
  std::fill(state.begin(), state.end(), 0.0F);
  if (has_average()) std::copy(value.begin(), value.end(), state.end() - std::ssize(value));
}

void UpdateRule::apply(float learning_rate, std::uint64_t count, std::span<float> value,
                       std::span<const float> gradient, std::span<float> state) const {
  PADDLE_CHECK(count > 0 && gradient.size() == value.size() &&
               state.size() == state_width_ * value.size());
  const Elements elements{value.size(), value.data(), gradient.data(), state.data(), value.size()};
  apply(learning_rate, count, {&elements, 1});
}

void UpdateRule::apply(float learning_rate, std::uint64_t count, Batch batch) const {
  PADDLE_CHECK(count > 0);
  const Bounds bounds{clip_value_, l1_, l2_};
  const float rate = learning_rate * rate_;
  const Adaptive adaptive{rate, epsilon_, rho_, momentum_};
  switch (method_) {
    case Method::kSgd:
      update_sgd(bounds, rate, batch);
      break;
    case Method::kMomentum:
      update_momentum(bounds, rate, momentum_, batch);
      break;
    case Method::kTorchMomentum:
      update_momentum(bounds, count > 1 ? rate * (1.0F - momentum_) : rate, momentum_, batch);
      break;
    case Method::kAdagrad:
      update_adagrad(bounds, adaptive, batch);
      break;
    case Method::kDecayedAdagrad:
      update_decayed_adagrad(bounds, adaptive, batch);
      break;
    case Method::kAdadelta:
      update_adadelta(bounds, adaptive, batch);
      break;
    case Method::kRmsprop:
      (is_centered_ ? update_centered_rmsprop : update_rmsprop)(bounds, adaptive, batch);
      break;
    case Method::kAdam:
      update_adam(
          bounds,
          {rate, beta1_, beta2_, epsilon_, correction(beta1_, count), correction(beta2_, count)},
          batch);
      break;
    case Method::kAdamax:
      update_adamax(bounds, {rate * correction(beta1_, count), beta1_, beta2_, epsilon_, 1, 1},
                    batch);
      break;
    case Method::kFtrl:
      // A rate of 0 is an infinite distance to every other value.
      if (rate > 0) update_ftrl(clip_value_, {rate, beta_, l1_, l2_}, batch);
      break;
  }
  if (!has_average()) return;
  const float weight = average_weight(average_, count);
  for (const Elements& e : batch) {
    update_average(weight, e.size, e.value, e.state + (state_width_ - 1) * e.plane_stride);
  }
}

}  // namespace paddle::optim
