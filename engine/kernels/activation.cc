#include "engine/kernels/activation.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/multiversion.h"
#include "base/named_rows.h"
#include "engine/kernels/cross_entropy.h"
#include "engine/kernels/elementwise.h"
#include "engine/kernels/portable_math.h"

namespace paddle::kernels {
namespace {

// 1 - 2 / (e^2x + 1) loses relative precision near 0, where the odd series of tanh is used.
[[gnu::always_inline]] inline float hyperbolic_tangent(float x) {
  const float z = x * x;
  float series = -1382.0F / 155925.0F;
  series = series * z + 62.0F / 2835.0F;
  series = series * z - 17.0F / 315.0F;
  series = series * z + 2.0F / 15.0F;
  series = series * z - 1.0F / 3.0F;
  const float near_zero = x + x * z * series;
  const float far = 1.0F - 2.0F / (exponential(2.0F * x) + 1.0F);
  return std::fabs(x) < 0.25F ? near_zero : far;
}

// Density and distribution function of the standard normal at x. The latter is formula 7.1.26 of
// Abramowitz and Stegun, whose error is under 7.5e-8.
struct Normal {
  float density;
  float distribution;
};
[[gnu::always_inline]] inline Normal standard_normal(float x) {
  const float square = x * x;
  // The exponential saturates, and x times what is left must vanish.
  const float bell = square < 170.0F ? exponential(-0.5F * square) : 0.0F;
  const float t = 1.0F / (1.0F + 0.23164190F * std::fabs(x));
  float series = 1.061405429F;
  series = series * t - 1.453152027F;
  series = series * t + 1.421413741F;
  series = series * t - 0.284496736F;
  series = series * t + 0.254829592F;
  const float tail = 0.5F * series * t * bell;
  return {0.39894228F * bell, x < 0.0F ? tail : 1.0F - tail};
}

PADDLE_MULTIVERSION
void gelu_each(std::size_t rows, std::size_t width, float* y) {
  for (std::size_t i = 0; i < rows * width; ++i) y[i] *= standard_normal(y[i]).distribution;
}

PADDLE_MULTIVERSION
void gelu_backward(std::size_t rows, std::size_t width, const float* __restrict x,
                   float* __restrict gradient) {
  for (std::size_t i = 0; i < rows * width; ++i) {
    const Normal normal = standard_normal(x[i]);
    gradient[i] *= normal.distribution + x[i] * normal.density;
  }
}

PADDLE_MULTIVERSION
void sigmoid_each(std::size_t rows, std::size_t width, float* y) {
  for (std::size_t i = 0; i < rows * width; ++i) y[i] = logistic(y[i]);
}

PADDLE_MULTIVERSION
void tanh_each(std::size_t rows, std::size_t width, float* y) {
  for (std::size_t i = 0; i < rows * width; ++i) y[i] = hyperbolic_tangent(y[i]);
}

PADDLE_MULTIVERSION
void relu_each(std::size_t rows, std::size_t width, float* y) {
  for (std::size_t i = 0; i < rows * width; ++i) y[i] = y[i] < 0.0F ? 0.0F : y[i];
}

PADDLE_MULTIVERSION
void sigmoid_backward(std::size_t rows, std::size_t width, const float* __restrict y,
                      float* __restrict gradient) {
  for (std::size_t i = 0; i < rows * width; ++i) gradient[i] *= y[i] * (1.0F - y[i]);
}

PADDLE_MULTIVERSION
void tanh_backward(std::size_t rows, std::size_t width, const float* __restrict y,
                   float* __restrict gradient) {
  for (std::size_t i = 0; i < rows * width; ++i) gradient[i] *= 1.0F - y[i] * y[i];
}

PADDLE_MULTIVERSION
void relu_backward(std::size_t rows, std::size_t width, const float* __restrict y,
                   float* __restrict gradient) {
  for (std::size_t i = 0; i < rows * width; ++i) gradient[i] = y[i] > 0.0F ? gradient[i] : 0.0F;
}

constexpr auto kActivations = std::to_array<Activation>({
    {"identity", nullptr, nullptr, false},
    {"sigmoid", sigmoid_each, sigmoid_backward, false},
    {"relu", relu_each, relu_backward, false},
    {"tanh", tanh_each, tanh_backward, false},
    {"softmax", softmax_rows, softmax_rows_backward, false},
    {"gelu", gelu_each, gelu_backward, true},
});

// As many rows as fit the first-level cache together, for two steps over them.
std::size_t rows_per_block(std::size_t width) {
  constexpr std::size_t kBlockElements = 4096;
  return std::max<std::size_t>(1, kBlockElements / std::max(width, 1UL));
}

}  // namespace

std::span<const Activation> activations() {
  return kActivations;
}

const Activation* find_activation(std::string_view name) {
  return find_row(activations(), name);
}

void bias_activate(const Activation& activation, std::size_t rows, std::size_t width,
                   const float* bias, float* y) {
  const std::size_t block_rows = rows_per_block(width);
  for (std::size_t first = 0; first < rows; first += block_rows) {
    const std::size_t count = std::min(block_rows, rows - first);
    float* const block = y + first * width;
    if (bias != nullptr) add_bias(count, width, bias, block);
    if (activation.apply != nullptr) activation.apply(count, width, block);
  }
}

void activation_backward(const Activation& activation, std::size_t rows, std::size_t width,
                         const float* kept, float* gradient, float beta, float* sum) {
  if (sum != nullptr && rows == 0) column_sum(0, width, gradient, beta, sum);
  const std::size_t block_rows = rows_per_block(width);
  for (std::size_t first = 0; first < rows; first += block_rows) {
    const std::size_t count = std::min(block_rows, rows - first);
    float* const block = gradient + first * width;
    if (activation.backward != nullptr) {
      activation.backward(count, width, kept + first * width, block);
    }
    if (sum != nullptr) column_sum(count, width, block, first == 0 ? beta : 1.0F, sum);
  }
}

}  // namespace paddle::kernels
