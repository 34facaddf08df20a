#include "engine/param/initial.h"

#include <algorithm>

#include "engine/base/rng.h"

namespace paddle::param {
namespace {

std::uint64_t parameter_stream(const wire::ParameterSpec& spec, std::uint64_t seed) {
  return hash_combine(seed, stable_hash(spec.name()));
}

float draw(Rng& rng, const wire::ParameterSpec& spec) {
  const double value = static_cast<double>(spec.initial_mean()) +
                       static_cast<double>(spec.initial_std()) * rng.normal();
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
    values[i] = draw(rng, spec);
  }
}

void fill_initial_row(std::span<float> row, const wire::ParameterSpec& spec, std::uint64_t seed,
                      std::uint64_t id) {
  if (spec.initial_std() == 0) {
    std::fill(row.begin(), row.end(), spec.initial_mean());
    return;
  }
  Rng rng(hash_combine(parameter_stream(spec, seed), id));
  for (float& value : row) value = draw(rng, spec);
}

}  // namespace paddle::param
