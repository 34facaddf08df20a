// Initial values of parameters. Every element is a pure function of (seed, parameter name,
// position), so any process can compute any part.
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

// INVARIANT: a new row depends on id, name and seed alone.
// row[j] = element j of row `id` of a sparse table: initial_mean + initial_std * normal(seed, name,
// id, j).
void fill_initial_row(std::span<float> row, const wire::ParameterSpec& spec, std::uint64_t seed,
                      std::uint64_t id);

// Initial values of many rows of one table, `width` elements each; several at once are far faster.
class InitialRows {
 public:
  // Values that tests, predictions and exports read for a row that is not in the table. They are
  // the mean of the initial values, so that an id that training never saw adds nothing random to a
  // score. If the table draws unseen ids, or is static and so keeps every row at its initial value,
  // they are the initial values of the row.
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
  // For the first elements of a row, the parts of their two random numbers that are the same in all
  // rows. fill() combines them with the stream of each row.
  std::vector<std::uint64_t> radius_;
  std::vector<std::uint64_t> angle_;
};

}  // namespace paddle::optim
