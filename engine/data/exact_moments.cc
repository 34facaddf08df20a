#include "engine/data/exact_moments.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "base/check.h"

namespace paddle::data {
namespace {

__extension__ using Wide = unsigned __int128;

constexpr int kBitsOfDigit = 32;
constexpr int kSumUnit = -149;      // a sum is an integer times 2^kSumUnit
constexpr int kDoubleUnit = -1074;  // a double is an integer times 2^kDoubleUnit

// A whole number of any size, 0 or more.
class Natural {
 public:
  Natural() = default;
  explicit Natural(std::uint64_t value) {
    for (; value > 0; value >>= kBitsOfDigit) digits_.push_back(static_cast<std::uint32_t>(value));
  }

  bool is_zero() const { return digits_.empty(); }
  // The number of bits without leading zeros.
  int bits() const {
    return digits_.empty()
               ? 0
               : static_cast<int>(digits_.size()) * kBitsOfDigit - std::countl_zero(digits_.back());
  }

  Natural shifted_left(int by) const {
    Natural shifted;
    if (is_zero()) return shifted;
    shifted.digits_.assign(static_cast<std::size_t>(by / kBitsOfDigit), 0);
    std::uint64_t rest = 0;
    for (const std::uint32_t digit : digits_) {
      rest |= std::uint64_t{digit} << (by % kBitsOfDigit);
      shifted.digits_.push_back(static_cast<std::uint32_t>(rest));
      rest >>= kBitsOfDigit;
    }
    shifted.digits_.push_back(static_cast<std::uint32_t>(rest));
    return shifted.trimmed();
  }

  Natural operator+(const Natural& other) const {
    Natural sum;
    std::uint64_t rest = 0;
    for (std::size_t i = 0; i < std::max(digits_.size(), other.digits_.size()); ++i) {
      rest += std::uint64_t{digit(i)} + other.digit(i);
      sum.digits_.push_back(static_cast<std::uint32_t>(rest));
      rest >>= kBitsOfDigit;
    }
    sum.digits_.push_back(static_cast<std::uint32_t>(rest));
    return sum.trimmed();
  }

  // REQUIRES: other <= *this.
  Natural operator-(const Natural& other) const {
    Natural difference;
    std::int64_t rest = 0;
    for (std::size_t i = 0; i < digits_.size(); ++i) {
      rest += std::int64_t{digit(i)} - std::int64_t{other.digit(i)};
      difference.digits_.push_back(static_cast<std::uint32_t>(rest));
      rest >>= kBitsOfDigit;
    }
    PADDLE_CHECK(rest == 0);
    return difference.trimmed();
  }

  Natural operator*(const Natural& other) const {
    Natural product;
    product.digits_.assign(digits_.size() + other.digits_.size(), 0);
    for (std::size_t i = 0; i < digits_.size(); ++i) {
      std::uint64_t rest = 0;
      for (std::size_t j = 0; j < other.digits_.size(); ++j) {
        rest += std::uint64_t{digits_[i]} * other.digits_[j] + product.digits_[i + j];
        product.digits_[i + j] = static_cast<std::uint32_t>(rest);
        rest >>= kBitsOfDigit;
      }
      product.digits_[i + other.digits_.size()] = static_cast<std::uint32_t>(rest);
    }
    return product.trimmed();
  }

  bool operator<(const Natural& other) const {
    if (digits_.size() != other.digits_.size()) return digits_.size() < other.digits_.size();
    return std::lexicographical_compare(digits_.rbegin(), digits_.rend(), other.digits_.rbegin(),
                                        other.digits_.rend());
  }

 private:
  std::uint32_t digit(std::size_t i) const { return i < digits_.size() ? digits_[i] : 0; }
  Natural trimmed() {
    while (!digits_.empty() && digits_.back() == 0) digits_.pop_back();
    return std::move(*this);
  }

  std::vector<std::uint32_t> digits_;  // the lowest first; the last is not 0
};

struct Integer {
  bool is_negative = false;
  Natural magnitude;
};

Integer operator+(const Integer& a, const Integer& b) {
  if (a.is_negative == b.is_negative) return {a.is_negative, a.magnitude + b.magnitude};
  if (a.magnitude < b.magnitude) return {b.is_negative, b.magnitude - a.magnitude};
  return {a.is_negative, a.magnitude - b.magnitude};
}

// The number whose digits are as ExactMoments::digits() returns them.
Integer integer_of(std::span<const std::int64_t> digits) {
  Integer sum;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    const std::int64_t digit = digits[i];
    const auto magnitude = static_cast<std::uint64_t>(std::abs(digit));
    sum = sum +
          Integer{digit < 0, Natural(magnitude).shifted_left(static_cast<int>(i) * kBitsOfDigit)};
  }
  return sum;
}

// A double in units of 2^kDoubleUnit.
Integer integer_of(double value) {
  constexpr int kMantissaBits = 53;
  int exponent = 0;
  const double mantissa = std::ldexp(std::frexp(std::abs(value), &exponent), kMantissaBits);
  const int place = exponent - kMantissaBits - kDoubleUnit;
  const Natural whole(static_cast<std::uint64_t>(mantissa));
  // A subnormal number has zeros below its lowest bit.
  if (place >= 0) return {value < 0, whole.shifted_left(place)};
  return {value < 0, Natural(static_cast<std::uint64_t>(mantissa) >> -place)};
}

// numerator / denominator * 2^exponent, rounded to the nearest double.
double quotient(const Natural& numerator, const Natural& denominator, int exponent) {
  constexpr int kQuotientBits = 64;
  if (numerator.is_zero()) return 0;
  // The quotient of these has 64 or 65 bits, more than a double.
  const int shift = kQuotientBits + denominator.bits() - numerator.bits();
  Natural rest = numerator.shifted_left(std::max(shift, 0));
  const Natural divisor = denominator.shifted_left(std::max(-shift, 0));
  Wide whole = 0;
  for (int bit = kQuotientBits; bit >= 0; --bit) {
    const Natural part = divisor.shifted_left(bit);
    if (rest < part) continue;
    rest = rest - part;
    whole |= Wide{1} << static_cast<unsigned>(bit);
  }
  if (!rest.is_zero()) whole |= 1;  // so that a half is not taken for the exact one
  return std::ldexp(static_cast<double>(whole), exponent - shift);
}

void carry_digits(std::span<std::int64_t> digits) {
  for (std::size_t i = 0; i + 1 < digits.size(); ++i) {
    digits[i + 1] += digits[i] >> kBitsOfDigit;
    digits[i] &= 0xffffffff;
  }
}

}  // namespace

void ExactMoments::carry() {
  const std::span<std::int64_t> all = digits_;
  carry_digits(all.first(kSumDigits));
  carry_digits(all.subspan(kSumDigits));
  uncarried_ = 0;
}

void ExactMoments::add(std::size_t digit, std::uint64_t value, std::uint32_t place,
                       bool is_negative) {
  std::int64_t* const at = digits_.data() + digit + place / kBitsOfDigit;
  const std::uint32_t shift = place % kBitsOfDigit;
  const std::uint64_t low = (value & kDigitMask) << shift;
  const std::uint64_t high = (value >> kBitsOfDigit) << shift;  // one digit above
  const std::int64_t sign = is_negative ? -1 : 1;
  at[0] += sign * static_cast<std::int64_t>(low & kDigitMask);
  at[1] += sign * static_cast<std::int64_t>((low >> kBitsOfDigit) + (high & kDigitMask));
  at[2] += sign * static_cast<std::int64_t>(high >> kBitsOfDigit);
}

// The mantissa of a number is its fraction f, and 2^23 more if its exponent is not 0. The sums of
// mantissas and their squares follow from those of f: (f + 2^23)^2 = f^2 + 2^24 f + 2^46. With at
// most 2^15 numbers they are below 2^39 and 2^63.
ExactMoments::Counts ExactMoments::add(NumberBins& bins) {
  constexpr std::uint32_t kExponents = 1U << 8U;
  Counts counts;
  for (std::uint32_t i = 0; i < 2 * kExponents; ++i) {
    NumberBins::Bin& bin = bins.bins_[i];
    if (bin.count_and_sum == 0) continue;
    const auto [count_and_sum, squares] = std::exchange(bin, {});
    const std::uint64_t count = count_and_sum >> NumberBins::kCountPlace;
    const std::uint64_t sum = count_and_sum & (NumberBins::kOne - 1);
    const std::uint32_t exponent = i % kExponents;
    if (exponent == kExponents - 1) {
      PADDLE_CHECK(sum > 0);  // the fraction of an infinite number is 0
      counts.missing += count;
      continue;
    }
    counts.numbers += count;
    const std::uint64_t ones = exponent > 0 ? count << NumberBins::kFractionBits : 0;
    const std::uint32_t place = exponent > 0 ? exponent - 1 : 0;  // of the mantissa, in bits
    add(0, sum + ones, place, i >= kExponents);
    add(kSumDigits,
        squares + (exponent > 0 ? sum << (NumberBins::kFractionBits + 1) : 0) +
            (ones << NumberBins::kFractionBits),
        2 * place, false);
    if (++uncarried_ == kUncarriedMax) carry();
  }
  return counts;
}

void ExactMoments::add(const ExactMoments& other) {
  carry();
  const auto added = other.digits();
  for (std::size_t i = 0; i < kDigits; ++i) digits_[i] += added[i];
  carry();
}

std::array<std::int64_t, ExactMoments::kDigits> ExactMoments::digits() const {
  ExactMoments carried = *this;
  carried.carry();
  return carried.digits_;
}

bool ExactMoments::are_digits(std::span<const std::int64_t, kDigits> digits) {
  constexpr std::int64_t kTopMax = std::int64_t{1} << 24;
  for (std::size_t i = 0; i < kDigits; ++i) {
    const bool is_top = i + 1 == kSumDigits || i + 1 == kDigits;
    const bool may_be_negative = i + 1 == kSumDigits;
    const std::int64_t min = may_be_negative ? -kTopMax : 0;
    const std::int64_t max = is_top ? kTopMax : static_cast<std::int64_t>(kDigitMask);
    if (digits[i] < min || digits[i] > max) return false;
  }
  return true;
}

ExactMoments ExactMoments::from_digits(std::span<const std::int64_t, kDigits> digits) {
  PADDLE_CHECK(are_digits(digits));
  ExactMoments moments;
  std::ranges::copy(digits, moments.digits_.begin());
  return moments;
}

// With n numbers, their sum S and the sum Q of their squares, the mean is S / n and the variance is
// (n Q - S^2) / n^2. S and Q are exact, so the difference has no error however large the mean is.
Moments ExactMoments::moments(std::uint64_t count, std::uint64_t fills, double fill) const {
  const Natural n(count + fills);
  if (n.is_zero()) return {};
  const auto all = digits();
  const std::span<const std::int64_t> view = all;
  Integer sum = integer_of(view.first(kSumDigits));
  sum.magnitude = sum.magnitude.shifted_left(kSumUnit - kDoubleUnit);
  Natural squares = integer_of(view.subspan(kSumDigits)).magnitude;
  squares = squares.shifted_left(2 * (kSumUnit - kDoubleUnit));
  const Integer one = integer_of(fill);
  sum = sum + Integer{one.is_negative, one.magnitude * Natural(fills)};
  squares = squares + one.magnitude * one.magnitude * Natural(fills);

  Moments moments;
  moments.mean = quotient(sum.magnitude, n, kDoubleUnit) * (sum.is_negative ? -1 : 1);
  const Natural of_squares = n * squares;
  const Natural of_mean = sum.magnitude * sum.magnitude;
  // Never true for sums of numbers.
  if (of_squares < of_mean) return moments;
  moments.deviation = std::sqrt(quotient(of_squares - of_mean, n * n, 2 * kDoubleUnit));
  return moments;
}

}  // namespace paddle::data
