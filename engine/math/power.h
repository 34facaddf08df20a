// Powers with the same bits on every machine, from exact operations only; libm's pow may differ in
// the last bit between processors.
#pragma once

#include <cstdint>

#include "base/multiversion.h"

namespace paddle::optim {

// base^exponent by repeated squaring.
PADDLE_HD_INLINE double integer_power(double base, std::uint64_t exponent) {
  double result = 1;
  for (double square = base; exponent > 0; exponent >>= 1U, square *= square) {
    if ((exponent & 1U) != 0) result *= square;
  }
  return result;
}

// base^exponent for a base above 0, with a relative error below 1e-12 while the result is a normal
// number; 0 or infinity beyond.
double real_power(double base, double exponent);

}  // namespace paddle::optim
