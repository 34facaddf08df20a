// The arithmetic of one update over consecutive elements. The bits are the same with every
// instruction set, however the elements are split among calls.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/math/update_rules.h"

namespace paddle::optim {

// The elements of one update; none of the arrays overlaps another.
struct Elements {
  std::size_t size = 0;
  float* value = nullptr;
  const float* gradient = nullptr;
  float* state = nullptr;        // planes of `size` floats, in the order of the rules
  std::size_t plane_stride = 0;  // floats from one plane to the next
};

// Elements that share one update: the blocks of a parameter, the rows of a table. One call takes
// all of them, because for a single short row the call would take longer than the update.
using Batch = std::span<const Elements>;

// False if a new value or its state is not finite.
using UpdateKernel = bool (*)(const Step& step, Batch batch);
UpdateKernel update_kernel(Formula formula);

// True when every |value| is below the limit, and so neither infinite nor NaN.
bool all_below(std::span<const float> values, float limit);

// average += weight (value - average). False if a new average is not finite.
bool update_average(float weight, std::size_t size, const float* value, float* average);

}  // namespace paddle::optim
