#include "engine/math/activation.h"

#include <algorithm>
#include <array>

#include "base/multiversion.h"
#include "base/named_rows.h"
#include "engine/math/costs.h"
#include "engine/math/elementwise.h"
#include "engine/math/formulas.h"

namespace paddle::kernels {
namespace {

// The function of each value, and the gradient through it, as loops that vectorise.
template <class Function>
[[gnu::always_inline]] inline void apply_each(std::size_t count, float* y) {
  for (std::size_t i = 0; i < count; ++i) y[i] = Function::apply(y[i]);
}
template <class Function>
[[gnu::always_inline]] inline void backward_each(std::size_t count, const float* __restrict kept,
                                                 float* __restrict gradient) {
  for (std::size_t i = 0; i < count; ++i) gradient[i] = Function::backward(kept[i], gradient[i]);
}

PADDLE_MULTIVERSION
void gelu_each(std::size_t rows, std::size_t width, float* y) {
  apply_each<Gelu>(rows * width, y);
}

PADDLE_MULTIVERSION
void gelu_backward(std::size_t rows, std::size_t width, const float* kept, float* gradient) {
  backward_each<Gelu>(rows * width, kept, gradient);
}

PADDLE_MULTIVERSION
void sigmoid_each(std::size_t rows, std::size_t width, float* y) {
  apply_each<Sigmoid>(rows * width, y);
}

PADDLE_MULTIVERSION
void sigmoid_backward(std::size_t rows, std::size_t width, const float* kept, float* gradient) {
  backward_each<Sigmoid>(rows * width, kept, gradient);
}

PADDLE_MULTIVERSION
void tanh_each(std::size_t rows, std::size_t width, float* y) {
  apply_each<Tanh>(rows * width, y);
}

PADDLE_MULTIVERSION
void tanh_backward(std::size_t rows, std::size_t width, const float* kept, float* gradient) {
  backward_each<Tanh>(rows * width, kept, gradient);
}

PADDLE_MULTIVERSION
void relu_each(std::size_t rows, std::size_t width, float* y) {
  apply_each<Relu>(rows * width, y);
}

PADDLE_MULTIVERSION
void relu_backward(std::size_t rows, std::size_t width, const float* kept, float* gradient) {
  backward_each<Relu>(rows * width, kept, gradient);
}

constexpr auto kActivations = std::to_array<Activation>({
    {"identity", nullptr, nullptr, false},
    {"sigmoid", sigmoid_each, sigmoid_backward, false},
    {"relu", relu_each, relu_backward, false},
    {"tanh", tanh_each, tanh_backward, false},
    {"softmax", softmax_rows, softmax_rows_backward, false},
    {"gelu", gelu_each, gelu_backward, true},
});

// Number of rows that fit in the first-level cache together, so that the second step over them
// reads from the cache.
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
