// The arithmetic of one update over consecutive elements, one function a method. The bits are the
// same on every instruction set and for every split of the elements: nothing is reassociated, and
// no multiply-add is fused.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace paddle::optim {

// The elements of one update; none of the arrays overlaps another.
struct Elements {
  std::size_t size = 0;
  float* value = nullptr;
  const float* gradient = nullptr;
  float* state = nullptr;        // planes of `size` floats, in the order of the functions below
  std::size_t plane_stride = 0;  // floats from one plane to the next
};

// Elements that share one update: the blocks of a parameter, the rows of a table. One call takes
// all of them, because for a single short row the call would take longer than the update.
using Batch = std::span<const Elements>;

// The numbers in a method's formula (optimizer.h).
struct Constants {
  float rate = 0;
  // Every method but ftrl sees a gradient g limited to [-clip, clip], plus l2 w. Afterwards w moves
  // towards 0 by at most l1 times the element's own learning rate: the proximal step of l1 |w|
  // (Duchi and Singer, 2009).
  float clip = 0;  // infinity: no limit
  float l1 = 0;
  float l2 = 0;
  float momentum = 0;
  float beta1 = 0;
  float beta2 = 0;
  float epsilon = 0;
  float rho = 0;
  float beta = 0;
  float weight_decay = 0;
  bool is_centered = false;
};

// `count` is the 1-based number of this update of the elements. False when a value or its state is
// no longer finite.
using UpdateKernel = bool (*)(const Constants& k, std::uint64_t count, Batch batch);

bool update_sgd(const Constants& k, std::uint64_t count, Batch batch);
// State: m.
bool update_momentum(const Constants& k, std::uint64_t count, Batch batch);
bool update_torch_momentum(const Constants& k, std::uint64_t count, Batch batch);
// State: a, and after it m where momentum is above 0.
bool update_adagrad(const Constants& k, std::uint64_t count, Batch batch);
bool update_decayed_adagrad(const Constants& k, std::uint64_t count, Batch batch);
// State: a, u, and m as above.
bool update_adadelta(const Constants& k, std::uint64_t count, Batch batch);
// State: a, f where it is centered, and m as above.
bool update_rmsprop(const Constants& k, std::uint64_t count, Batch batch);
// State: m, v.
bool update_adam(const Constants& k, std::uint64_t count, Batch batch);
bool update_adamw(const Constants& k, std::uint64_t count, Batch batch);
// State: m, u.
bool update_adamax(const Constants& k, std::uint64_t count, Batch batch);
// State: n, z, s. It regularises by itself; a rate of 0 changes nothing.
bool update_ftrl(const Constants& k, std::uint64_t count, Batch batch);

// True when every |value| is below the limit, and so neither infinite nor NaN.
bool all_below(std::span<const float> values, float limit);

// average += weight (value - average). False when one is no longer finite.
bool update_average(float weight, std::size_t size, const float* value, float* average);

}  // namespace paddle::optim
