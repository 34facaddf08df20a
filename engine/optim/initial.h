// Initial values of parameters. Every element is a pure function of (seed, parameter name,
// position), so any process can make any part.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "proto/parameters.pb.h"

namespace paddle::optim {

// values[i] = element begin + i of a dense parameter: initial_mean + initial_std * normal(seed,
// name, begin + i).
void fill_initial(std::span<float> values, const wire::ParameterSpec& spec, std::uint64_t seed,
                  std::uint64_t begin);

// row[j] = element j of row `id` of a sparse table: initial_mean + initial_std * normal(seed, name,
// id, j).
void fill_initial_row(std::span<float> row, const wire::ParameterSpec& spec, std::uint64_t seed,
                      std::uint64_t id);

// Initial values of many rows of one table, `width` elements each; several at once are far faster.
class InitialRows {
 public:
  // Values that tests, predictions and exports read for a row that the table lacks: the mean of the
  // initial values, so that an id that training never saw has no random part in a score. Where the
  // table draws unseen ids, or is static, which keeps every row at its initial value, it is the
  // initial value.
  static InitialRows unseen(const wire::ParameterSpec& spec, std::uint64_t seed, std::size_t width);

  struct Row {
    std::uint64_t id = 0;
    float* to = nullptr;
  };

  InitialRows(const wire::ParameterSpec& spec, std::uint64_t seed, std::size_t width);
  void fill(std::span<const Row> rows) const;

 private:
  float mean_;
  float std_;
  std::uint64_t stream_;
  std::size_t width_;
  // Of the first elements, the parts of their two random numbers that a row's stream is mixed with.
  std::vector<std::uint64_t> radius_;
  std::vector<std::uint64_t> angle_;
};

}  // namespace paddle::optim
