#include "engine/param/optimizer.h"

#include <array>
#include <cmath>
#include <string_view>

#include <fmt/format.h>

#include "engine/base/check.h"
#include "engine/base/text.h"

namespace paddle::param {
namespace {

enum class Method { kUnknown, kSgd, kMomentum, kAdagrad, kAdam };

constexpr std::array<std::string_view, 4> kMethodNames = {"sgd", "momentum", "adagrad", "adam"};

Method method_of(const wire::Optimizer& optimizer) {
  for (std::size_t i = 0; i < kMethodNames.size(); ++i) {
    if (optimizer.method() == kMethodNames[i]) return static_cast<Method>(i + 1);
  }
  return Method::kUnknown;
}

float value_or(float value, float fallback) {
  return value != 0 ? value : fallback;
}

// The spans of one update; none overlaps another.
struct Arrays {
  std::size_t size;
  float* __restrict value;
  const float* __restrict gradient;
  float* __restrict state;
};

void apply_sgd(const Update& update, const Arrays& arrays) {
  float* __restrict w = arrays.value;
  const float* __restrict g = arrays.gradient;
  const float rate = update.learning_rate;
  const float l2 = update.l2;
  for (std::size_t i = 0; i < arrays.size; ++i) w[i] -= rate * (g[i] + l2 * w[i]);
}

void apply_momentum(float momentum, const Update& update, const Arrays& arrays) {
  float* __restrict w = arrays.value;
  const float* __restrict g = arrays.gradient;
  float* __restrict m = arrays.state;
  const float rate = update.learning_rate;
  const float l2 = update.l2;
  for (std::size_t i = 0; i < arrays.size; ++i) {
    m[i] = momentum * m[i] - rate * (g[i] + l2 * w[i]);
    w[i] += m[i];
  }
}

void apply_adagrad(float epsilon, const Update& update, const Arrays& arrays) {
  float* __restrict w = arrays.value;
  const float* __restrict g = arrays.gradient;
  float* __restrict sum = arrays.state;
  const float rate = update.learning_rate;
  const float l2 = update.l2;
  for (std::size_t i = 0; i < arrays.size; ++i) {
    const float gradient = g[i] + l2 * w[i];
    sum[i] += gradient * gradient;
    w[i] -= rate * gradient / (std::sqrt(sum[i]) + epsilon);
  }
}

struct AdamConstants {
  float beta1;
  float beta2;
  float epsilon;
  float correction1;  // 1 / (1 - beta1^count)
  float correction2;
};

AdamConstants adam_constants(const wire::Optimizer& optimizer, std::uint64_t count) {
  const float beta1 = value_or(optimizer.beta1(), kAdamBeta1Default);
  const float beta2 = value_or(optimizer.beta2(), kAdamBeta2Default);
  const auto n = static_cast<double>(count);
  return AdamConstants{
      .beta1 = beta1,
      .beta2 = beta2,
      .epsilon = value_or(optimizer.epsilon(), kAdamEpsilonDefault),
      .correction1 = static_cast<float>(1.0 / (1.0 - std::pow(static_cast<double>(beta1), n))),
      .correction2 = static_cast<float>(1.0 / (1.0 - std::pow(static_cast<double>(beta2), n))),
  };
}

void apply_adam(const AdamConstants& c, const Update& update, const Arrays& arrays) {
  float* __restrict w = arrays.value;
  const float* __restrict g = arrays.gradient;
  float* __restrict m = arrays.state;
  float* __restrict v = arrays.state + arrays.size;
  const float rate = update.learning_rate;
  const float l2 = update.l2;
  for (std::size_t i = 0; i < arrays.size; ++i) {
    const float gradient = g[i] + l2 * w[i];
    m[i] = c.beta1 * m[i] + (1.0F - c.beta1) * gradient;
    v[i] = c.beta2 * v[i] + (1.0F - c.beta2) * gradient * gradient;
    w[i] -= rate * (m[i] * c.correction1) / (std::sqrt(v[i] * c.correction2) + c.epsilon);
  }
}

Status check_range(std::string_view name, float value, float below) {
  if (std::isfinite(value) && value >= 0 && value < below) return {};
  return Error{
      Errc::kUsage,
      fmt::format("optimizer {} is {}, must be at least 0 and below {}", name, value, below), ""};
}

}  // namespace

std::size_t state_width(const wire::Optimizer& optimizer) {
  switch (method_of(optimizer)) {
    case Method::kUnknown:
    case Method::kSgd:
      return 0;
    case Method::kMomentum:
    case Method::kAdagrad:
      return 1;
    case Method::kAdam:
      return 2;
  }
  return 0;
}

bool counts_updates(const wire::Optimizer& optimizer) {
  return method_of(optimizer) == Method::kAdam;
}

Status validate(const wire::Optimizer& optimizer) {
  if (method_of(optimizer) == Method::kUnknown) {
    const std::string suggestion = nearest(optimizer.method(), kMethodNames);
    return Error{
        Errc::kUsage,
        fmt::format("unknown optimizer '{}'{}", escape_control(optimizer.method()),
                    suggestion.empty() ? "" : fmt::format(", did you mean '{}'?", suggestion)),
        "the methods are sgd, momentum, adagrad and adam"};
  }
  if (!std::isfinite(optimizer.learning_rate()) || optimizer.learning_rate() <= 0) {
    return Error{
        Errc::kUsage,
        fmt::format("optimizer learning_rate is {}, must be above 0", optimizer.learning_rate()),
        ""};
  }
  PADDLE_TRY_STATUS(check_range("momentum", optimizer.momentum(), 1.0F));
  PADDLE_TRY_STATUS(check_range("beta1", optimizer.beta1(), 1.0F));
  PADDLE_TRY_STATUS(check_range("beta2", optimizer.beta2(), 1.0F));
  return check_range("epsilon", optimizer.epsilon(), 1.0F);
}

void apply_update(const wire::Optimizer& optimizer, const Update& update, std::span<float> value,
                  std::span<const float> gradient, std::span<float> state) {
  PADDLE_CHECK(gradient.size() == value.size());
  PADDLE_CHECK(state.size() == state_width(optimizer) * value.size());
  const Arrays arrays{value.size(), value.data(), gradient.data(), state.data()};
  switch (method_of(optimizer)) {
    case Method::kUnknown:
      PADDLE_CHECK(false && "unknown optimizer");
      break;
    case Method::kSgd:
      return apply_sgd(update, arrays);
    case Method::kMomentum:
      return apply_momentum(optimizer.momentum(), update, arrays);
    case Method::kAdagrad:
      return apply_adagrad(value_or(optimizer.epsilon(), kAdagradEpsilonDefault), update, arrays);
    case Method::kAdam:
      PADDLE_CHECK(update.count > 0);
      return apply_adam(adam_constants(optimizer, update.count), update, arrays);
  }
}

}  // namespace paddle::param
