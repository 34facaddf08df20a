// Sampler of classes from a fixed distribution by Walker's alias method: one random number per
// draw.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace paddle::nn {

class Sampler {
 public:
  // All classes have the same probability; `classes` is 1 to 2^32 - 1.
  static Sampler uniform(std::size_t classes);
  // The probability of a class is in proportion to count^0.75 (Mikolov et al. 2013); a count of 0
  // is taken as 1.
  static Sampler unigram(std::span<const std::uint64_t> counts);

  // The class for 64 random bits. It depends on nothing else and is the same on every machine: no
  // table is computed with libm.
  std::size_t draw(std::uint64_t random) const {
    const std::uint64_t column = ((random >> 32U) * classes_) >> 32U;
    if (table_ == nullptr) return column;
    const Column* const columns = table_->columns.data();  // without the checks of an index
    const Column drawn = columns[column];
    // Selected without a branch, which a CPU could not predict.
    const bool keeps = static_cast<std::uint32_t>(random) < drawn.threshold;
    const std::uint32_t keep = 0U - static_cast<std::uint32_t>(keeps);
    return (static_cast<std::uint32_t>(column) & keep) | (drawn.alias & ~keep);
  }
  double probability(std::size_t c) const {
    return table_ == nullptr ? 1.0 / static_cast<double>(classes_) : table_->probabilities[c];
  }

 private:
  // Gives its own class for 32 random bits below the threshold, and class `alias` otherwise.
  struct Column {
    std::uint32_t threshold;
    std::uint32_t alias;
  };

  struct Table {  // by class
    std::vector<double> probabilities;
    std::vector<Column> columns;
  };

  std::size_t classes_ = 0;
  std::shared_ptr<const Table> table_;  // shared by copies; null when uniform
};

}  // namespace paddle::nn
