#include "engine/math/power.h"

#include <cmath>

#include "base/check.h"

namespace paddle::optim {
namespace {

constexpr double kLn2 = 0.6931471805599453;
constexpr double kSqrtHalf = 0.7071067811865476;
constexpr double kExponentMax = 1100;  // 2^1100 is beyond every double, and so is its inverse
// The first term left out is below 2^-53 of the sum: ((sqrt(2) - 1) / (sqrt(2) + 1))^2 to the 12th,
// and (ln(2) / 2)^16 / 16!.
constexpr int kLogTerms = 11;
constexpr int kExpTerms = 15;

// ln(x) = e ln(2) + 2 artanh((m - 1) / (m + 1)) for x = m 2^e with m around 1.
double natural_log(double x) {
  int exponent = 0;
  double mantissa = std::frexp(x, &exponent);
  if (mantissa < kSqrtHalf) {
    mantissa *= 2;
    --exponent;
  }
  const double s = (mantissa - 1) / (mantissa + 1);
  double sum = 0;
  for (int i = kLogTerms; i >= 0; --i) sum = sum * s * s + 1.0 / (2 * i + 1);
  return exponent * kLn2 + 2 * s * sum;
}

double exponential(double x) {
  const double halvings = std::floor(x / kLn2 + 0.5);
  if (halvings > kExponentMax) return INFINITY;
  if (halvings < -kExponentMax) return 0;
  const double rest = x - halvings * kLn2;
  double sum = 1;
  for (int i = kExpTerms; i > 0; --i) sum = 1 + sum * rest / i;
  return std::ldexp(sum, static_cast<int>(halvings));
}

}  // namespace

double real_power(double base, double exponent) {
  PADDLE_CHECK(base > 0);
  return exponential(exponent * natural_log(base));
}

}  // namespace paddle::optim
