// The arithmetic of one update over consecutive elements, one function a method. Deterministic: no
// reassociation, no fused multiply-add, the same bits on every instruction set and for every split
// of the elements.
#pragma once

#include <cstddef>
#include <span>

namespace paddle::optim {

// One update's elements; none of the arrays overlaps another.
struct Elements {
  std::size_t size = 0;
  float* value = nullptr;
  const float* gradient = nullptr;
  float* state = nullptr;        // planes of `size` floats, in the order of the functions below,
  std::size_t plane_stride = 0;  // so many floats apart
};

// Elements that are updated alike: the blocks of a parameter, the rows of a table. A call for all
// of them, since for a single short row the call would take longer than the update.
using Batch = std::span<const Elements>;

// What every method does around its own formula: the gradient g it sees is the given one limited to
// [-clip, clip], plus l2 w; afterwards w moves towards 0 by at most l1 times the element's own
// learning rate, which is the proximal step of l1 |w| (Duchi and Singer, 2009).
struct Bounds {
  float clip = 0;  // infinity: no limit
  float l1 = 0;
  float l2 = 0;
};

// State: none.
void update_sgd(const Bounds& bounds, float rate, Batch batch);
// m = momentum m - rate g; w += m. State: m.
void update_momentum(const Bounds& bounds, float rate, float momentum, Batch batch);

// Methods that scale a step d per element: w += d, or with momentum above 0 and m one plane more
// m = momentum m + d; w += m.
struct Adaptive {
  float rate = 0;
  float epsilon = 0;
  float rho = 0;
  float momentum = 0;
};
void update_adagrad(const Bounds& bounds, const Adaptive& k, Batch batch);
void update_decayed_adagrad(const Bounds& bounds, const Adaptive& k, Batch batch);
void update_adadelta(const Bounds& bounds, const Adaptive& k, Batch batch);
void update_rmsprop(const Bounds& bounds, const Adaptive& k, Batch batch);
void update_centered_rmsprop(const Bounds& bounds, const Adaptive& k, Batch batch);

struct Moments {
  float rate = 0;  // with adamax's bias correction
  float beta1 = 0;
  float beta2 = 0;
  float epsilon = 0;
  float correction1 = 0;  // adam: 1 / (1 - beta^count)
  float correction2 = 0;
};
// State: m, v.
void update_adam(const Bounds& bounds, const Moments& k, Batch batch);
// State: m, u.
void update_adamax(const Bounds& bounds, const Moments& k, Batch batch);

struct Ftrl {
  float rate = 0;  // above 0
  float beta = 0;
  float l1 = 0;
  float l2 = 0;
};
// State: n, z, d. Regularises by itself: only `clip` of the bounds counts.
void update_ftrl(float clip, const Ftrl& k, Batch batch);

// average += weight (value - average).
void update_average(float weight, std::size_t size, const float* value, float* average);

}  // namespace paddle::optim
