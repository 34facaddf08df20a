// Activation functions, by name in one table, and their derivatives. Buffers are row-major and
// packed. No function allocates, and each gives the same bits on every machine, however the rows
// are divided among calls.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace paddle::kernels {

// A row of the table of activations.
struct Activation {
  std::string_view name;
  // Computes f(x) in place; null for the identity.
  void (*apply)(std::size_t rows, std::size_t width, float* y);
  // Multiplies the gradient by the derivative at x. `kept` is f(x), or x where reads_input.
  void (*backward)(std::size_t rows, std::size_t width, const float* kept, float* gradient);
  bool reads_input;  // the derivative cannot be computed from f(x)
};

// Null for an unknown name.
const Activation* find_activation(std::string_view name);
std::span<const Activation> activations();

// y[r][c] = f(y[r][c] + bias[c]); bias may be null. Softmax is taken over each row. The absolute
// error of sigmoid, tanh and softmax is under 3e-7, that of gelu, compared with the exact x Phi(x),
// under 3e-7 max(1, |x|).
void bias_activate(const Activation& activation, std::size_t rows, std::size_t width,
                   const float* bias, float* y);
// Turns d cost / d f(x) into d cost / d x, from `kept` as in Activation::backward. Then calls
// column_sum() on the result, if `sum` is not null.
void activation_backward(const Activation& activation, std::size_t rows, std::size_t width,
                         const float* kept, float* gradient, float beta = 0, float* sum = nullptr);

}  // namespace paddle::kernels
