#include "engine/param/initial.h"

#include <algorithm>

#include "engine/base/rng.h"

namespace paddle::param {
namespace {

std::uint64_t parameter_stream(const wire::ParameterSpec& spec, std::uint64_t seed) {
  return hash_combine(seed, stable_hash(spec.name()));
}

float draw(Rng& rng, float mean, float std) {
  const double value = static_cast<double>(mean) + static_cast<double>(std) * rng.normal();
  return static_cast<float>(value);
}

}  // namespace

void fill_initial(std::span<float> values, const wire::ParameterSpec& spec, std::uint64_t seed,
                  std::uint64_t begin) {
  if (spec.initial_std() == 0) {
    std::fill(values.begin(), values.end(), spec.initial_mean());
    return;
  }
  const std::uint64_t stream = parameter_stream(spec, seed);
  for (std::size_t i = 0; i < values.size(); ++i) {
    Rng rng(hash_combine(stream, begin + i));
    values[i] = draw(rng, spec.initial_mean(), spec.initial_std());
  }
}

void fill_initial_row(std::span<float> row, const wire::ParameterSpec& spec, std::uint64_t seed,
                      std::uint64_t id) {
  InitialRows(spec, seed).fill(row, id);
}

InitialRows::InitialRows(const wire::ParameterSpec& spec, std::uint64_t seed)
    : mean_(spec.initial_mean()), std_(spec.initial_std()), stream_(parameter_stream(spec, seed)) {}

void InitialRows::fill(std::span<float> row, std::uint64_t id) const {
  if (std_ == 0) {
    std::fill(row.begin(), row.end(), mean_);
    return;
  }
  Rng rng(hash_combine(stream_, id));
  for (float& value : row) value = draw(rng, mean_, std_);
}

}  // namespace paddle::param
