#include "engine/math/initial.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "base/multiversion.h"
#include "base/rng.h"
#include "engine/math/row_access.h"

namespace paddle::optim {
namespace {

std::uint64_t parameter_stream(const wire::ParameterSpec& spec, std::uint64_t seed) {
  return hash_combine(seed, stable_hash(spec.name()));
}

// Uniform number in [0, 1) with 53 bits: the result of Rng::uniform() for the random number
// `random`.
[[gnu::always_inline]] inline double uniform(std::uint64_t random) {
  // Setting the 52 bits behind the exponent of 1 would lose one bit, so two halves are added.
  const std::uint64_t bits = random >> 11U;
  const double high = std::bit_cast<double>(0x4330000000000000U | (bits >> 26U)) - 0x1p+52;
  const double low = std::bit_cast<double>(0x4330000000000000U | (bits & 0x3ffffffU)) - 0x1p+52;
  return high * 0x1p-27 + low * 0x1p-53;
}

// ln x for 2^-53 <= x <= 1, within 1e-14, as x = 2^e m with m near 1 and
// ln m = 2 artanh((m - 1) / (m + 1)).
[[gnu::always_inline]] inline double logarithm(double x) {
  constexpr std::uint64_t kRootHalf = 0x3fe6a09e667f3bcdU;
  constexpr std::uint64_t kShift = 64;  // keeps the exponent above 0
  const auto bits = std::bit_cast<std::uint64_t>(x);
  const std::uint64_t exponent = (bits - kRootHalf + (kShift << 52U)) >> 52U;
  const double m = std::bit_cast<double>(bits + ((kShift - exponent) << 52U));
  const double e = std::bit_cast<double>(0x4330000000000000U | exponent) - (0x1p+52 + 64.0);
  const double s = (m - 1.0) / (m + 1.0);
  const double z = s * s;
  double p = 1.0 / 17.0;
  p = p * z + 1.0 / 15.0;
  p = p * z + 1.0 / 13.0;
  p = p * z + 1.0 / 11.0;
  p = p * z + 1.0 / 9.0;
  p = p * z + 1.0 / 7.0;
  p = p * z + 1.0 / 5.0;
  p = p * z + 1.0 / 3.0;
  p = p * z + 1.0;
  return e * 0x1.62e42fefa39efp-1 + 2.0 * s * p;
}

// cos(2 pi u) for 0 <= u < 1, within 1e-14: 2 sin^2(pi (u - 1/2)) - 1 by Taylor's series.
[[gnu::always_inline]] inline double cosine_of_turns(double u) {
  const double v = 0x1.921fb54442d18p+1 * (u - 0.5);
  const double w = v * v;
  double p = 1.0 - w * (1.0 / 342.0);
  p = 1.0 - p * w * (1.0 / 272.0);
  p = 1.0 - p * w * (1.0 / 210.0);
  p = 1.0 - p * w * (1.0 / 156.0);
  p = 1.0 - p * w * (1.0 / 110.0);
  p = 1.0 - p * w * (1.0 / 72.0);
  p = 1.0 - p * w * (1.0 / 42.0);
  p = 1.0 - p * w * (1.0 / 20.0);
  p = 1.0 - p * w * (1.0 / 6.0);
  const double sine = v * p;
  return 2.0 * sine * sine - 1.0;
}

// mean + std * Rng(stream).normal() by Box-Muller, from the stream's values `radius` and `angle`.
// It calls no function of the C library, which may give other bits on another CPU, and nothing that
// keeps loops scalar.
[[gnu::always_inline]] inline float draw(std::uint64_t radius, std::uint64_t angle, float mean,
                                         float std) {
  const double length = std::sqrt(-2.0 * logarithm(1.0 - uniform(radius)));
  const double normal = length * cosine_of_turns(uniform(angle));
  return static_cast<float>(static_cast<double>(mean) + static_cast<double>(std) * normal);
}

PADDLE_MULTIVERSION
void draw_elements(std::uint64_t stream, std::uint64_t begin, float mean, float std,
                   std::size_t count, float* values) {
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t own = hash_combine(stream, begin + i);
    values[i] = draw(hash_combine(own, 0), hash_combine(own, 1), mean, std);
  }
}

// Draws element i from mix64(radius[i]) and mix64(angle[i]).
PADDLE_MULTIVERSION
void draw_each(const std::uint64_t* radius, const std::uint64_t* angle, float mean, float std,
               std::size_t count, float* values) {
#pragma GCC ivdep
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = draw(mix64(radius[i]), mix64(angle[i]), mean, std);
  }
}

constexpr std::size_t kDrawn = 512;  // elements that one call draws: 8 KiB of random numbers

std::uint64_t radius_of(std::uint64_t element) {
  return mix64(2 * element);
}

std::uint64_t angle_of(std::uint64_t element) {
  return mix64(2 * element + 1);
}

}  // namespace

void fill_initial(std::span<float> values, const wire::ParameterSpec& spec, std::uint64_t seed,
                  std::uint64_t begin) {
  if (spec.initial_std() == 0) {
    std::fill(values.begin(), values.end(), spec.initial_mean());
    return;
  }
  draw_elements(parameter_stream(spec, seed), begin, spec.initial_mean(), spec.initial_std(),
                values.size(), values.data());
}

void fill_initial_row(std::span<float> row, const wire::ParameterSpec& spec, std::uint64_t seed,
                      std::uint64_t id) {
  const InitialRows::Row one{id, row.data()};
  InitialRows(spec, seed, row.size()).fill({&one, 1});
}

InitialRows::InitialRows(const wire::ParameterSpec& spec, std::uint64_t seed, std::size_t width)
    : mean_(spec.initial_mean()),
      std_(spec.initial_std()),
      stream_(parameter_stream(spec, seed)),
      width_(width) {
  for (std::size_t i = 0; i < std::min(width, kDrawn); ++i) {
    radius_.push_back(radius_of(i));
    angle_.push_back(angle_of(i));
  }
}

InitialRows InitialRows::unseen(const wire::ParameterSpec& spec, std::uint64_t seed,
                                std::size_t width) {
  wire::ParameterSpec read = spec;
  if (!spec.is_static() && !spec.table().draws_unseen()) read.set_initial_std(0);
  return {read, seed, width};
}

// Elements of several rows are drawn in one call because one row would not fill the vectors.
void InitialRows::fill(std::span<const Row> rows) const {
  if (std_ == 0) {
    for (const Row& row : rows) std::fill_n(row.to, width_, mean_);
    return;
  }
  std::array<std::uint64_t, kDrawn> radius;
  std::array<std::uint64_t, kDrawn> angle;
  std::array<float, kDrawn> drawn;
  const std::size_t columns = radius_.size();  // elements of a row that one call draws
  const std::size_t group_size = kDrawn / std::max<std::size_t>(columns, 1);
  for (std::size_t first = 0; first < rows.size(); first += group_size) {
    const auto group = rows.subspan(first, std::min(group_size, rows.size() - first));
    for (std::size_t begin = 0; begin < width_; begin += columns) {
      const std::size_t count = std::min(columns, width_ - begin);
      std::size_t at = 0;
      for (const Row& row : group) {
        const std::uint64_t stream = hash_combine(stream_, row.id);
        for (std::size_t i = 0; i < count; ++i, ++at) {
          radius[at] = stream ^ (begin == 0 ? radius_[i] : radius_of(begin + i));
          angle[at] = stream ^ (begin == 0 ? angle_[i] : angle_of(begin + i));
        }
      }
      draw_each(radius.data(), angle.data(), mean_, std_, at, drawn.data());
      const float* from = drawn.data();
      for (const Row& row : group) {
        copy_row(from, count, row.to + begin);
        from += count;
      }
    }
  }
}

}  // namespace paddle::optim
