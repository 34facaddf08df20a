// Initial values: every element is a pure function of (seed, parameter name, position), so any
// process can make any part.
#pragma once

#include <cstdint>
#include <span>

#include "proto/parameters.pb.h"

namespace paddle::param {

// values[i] = element begin + i of a dense parameter: initial_mean + initial_std * normal(seed,
// name, begin + i).
void fill_initial(std::span<float> values, const wire::ParameterSpec& spec, std::uint64_t seed,
                  std::uint64_t begin);

// row[j] = element j of row `id` of a sparse table: initial_mean + initial_std * normal(seed, name,
// id, j).
void fill_initial_row(std::span<float> row, const wire::ParameterSpec& spec, std::uint64_t seed,
                      std::uint64_t id);

// The same for many rows of one table.
class InitialRows {
 public:
  InitialRows(const wire::ParameterSpec& spec, std::uint64_t seed);
  void fill(std::span<float> row, std::uint64_t id) const;

 private:
  float mean_;
  float std_;
  std::uint64_t stream_;
};

}  // namespace paddle::param
