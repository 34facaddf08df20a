#include "engine/math/costs.h"

#include <array>

#include "base/multiversion.h"
#include "engine/math/formulas.h"
#include "engine/math/portable_math.h"

namespace paddle::kernels {
namespace {

// With this many classes or fewer, plain loops beat vectors.
constexpr std::size_t kNarrow = 4;

PADDLE_MULTIVERSION
float largest(std::size_t width, const float* x) {
  std::array<float, kSumLanes> lanes;
  lanes.fill(x[0]);
  std::size_t i = 0;
  for (; i + kSumLanes <= width; i += kSumLanes) {
    for (std::size_t k = 0; k < kSumLanes; ++k)
      lanes[k] = x[i + k] > lanes[k] ? x[i + k] : lanes[k];
  }
  for (; i < width; ++i) lanes[0] = x[i] > lanes[0] ? x[i] : lanes[0];
  float result = lanes[0];
  for (const float lane : lanes) result = lane > result ? lane : result;
  return result;
}

// out[i] = e^(x[i] - shift); returns their sum, which is the same for any lane count that is no
// less than `width`, since the other lanes add 0.
template <std::size_t kLaneCount>
[[gnu::always_inline]] inline float sum_exponentials(std::size_t width, const float* __restrict x,
                                                     float shift, float* __restrict out) {
  std::array<float, kLaneCount> lanes{};
  std::size_t i = 0;
  for (; i + kLaneCount <= width; i += kLaneCount) {
    for (std::size_t k = 0; k < kLaneCount; ++k) {
      out[i + k] = exponential(x[i + k] - shift);
      lanes[k] += out[i + k];
    }
  }
  for (std::size_t k = 0; i + k < width; ++k) {
    out[i + k] = exponential(x[i + k] - shift);
    lanes[k] += out[i + k];
  }
  for (std::size_t half = kLaneCount / 2; half > 0; half /= 2) {
    for (std::size_t k = 0; k < half; ++k) lanes[k] += lanes[k + half];
  }
  return lanes[0];
}

PADDLE_MULTIVERSION
float exponentials(std::size_t width, const float* __restrict x, float shift,
                   float* __restrict out) {
  return sum_exponentials<kSumLanes>(width, x, shift, out);
}

PADDLE_MULTIVERSION
float exponentials_in_place(std::size_t width, float shift, float* x) {
  return lane_sum(width, [=](std::size_t i) {
    x[i] = exponential(x[i] - shift);
    return x[i];
  });
}

PADDLE_MULTIVERSION
void multiply_each(std::size_t width, float factor, float* x) {
  for (std::size_t i = 0; i < width; ++i) x[i] *= factor;
}

}  // namespace

SoftmaxCost softmax_cross_entropy(std::size_t width, const float* logits, std::size_t label,
                                  float scale, float* gradient) {
  SoftmaxCost result;
  float shift = logits[0];
  float sum = 0;
  const bool is_narrow = width <= kNarrow;
  if (is_narrow) {
    for (std::size_t i = 1; i < width; ++i) shift = logits[i] > shift ? logits[i] : shift;
    sum = sum_exponentials<kNarrow>(width, logits, shift, gradient);
  } else {
    shift = largest(width, logits);
    sum = exponentials(width, logits, shift, gradient);
  }
  while (result.prediction + 1 < width && logits[result.prediction] != shift) ++result.prediction;
  result.cost = softmax_cost_of(sum, shift, logits[label]);
  if (scale == 0) return result;
  if (is_narrow) {
    for (std::size_t i = 0; i < width; ++i) gradient[i] *= scale / sum;
  } else {
    multiply_each(width, scale / sum, gradient);
  }
  gradient[label] -= scale;
  return result;
}

void softmax_rows(std::size_t rows, std::size_t width, float* y) {
  for (std::size_t r = 0; r < rows; ++r, y += width) {
    const float shift = largest(width, y);
    multiply_each(width, 1.0F / exponentials_in_place(width, shift, y), y);
  }
}

PADDLE_MULTIVERSION
void softmax_rows_backward(std::size_t rows, std::size_t width, const float* __restrict y,
                           float* __restrict gradient) {
  for (std::size_t r = 0; r < rows; ++r, y += width, gradient += width) {
    const float mean = lane_sum(width, [=](std::size_t c) { return gradient[c] * y[c]; });
    for (std::size_t c = 0; c < width; ++c) gradient[c] = softmax_slope_of(y[c], gradient[c], mean);
  }
}

float sigmoid(float x) {
  return logistic(x);
}

double binary_cross_entropy(std::size_t count, const float* logits, float scale,
                            float* labels_to_gradient) {
  double cost = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const ElementCost of = binary_cross_entropy_of(logits[i], labels_to_gradient[i], scale);
    cost += of.cost;
    labels_to_gradient[i] = of.slope;
  }
  return cost;
}

PADDLE_MULTIVERSION
void candidate_costs(std::size_t count, const float* __restrict labels, float scale,
                     double* __restrict costs, float* __restrict logits_to_slopes) {
  for (std::size_t i = 0; i < count; ++i) {
    const ElementCost of = candidate_cost_of(logits_to_slopes[i], labels[i] != 0, scale);
    costs[i] = of.cost;
    logits_to_slopes[i] = of.slope;
  }
}

}  // namespace paddle::kernels
