// Draws classes from a fixed distribution: Walker's alias method, one random number a draw.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace paddle::nn {

class Sampler {
 public:
  // Every class alike; 1 to 2^32 - 1 classes.
  static Sampler uniform(std::size_t classes);
  // In proportion to count^0.75 (Mikolov et al. 2013); a count of 0 is taken as 1.
  static Sampler unigram(std::span<const std::uint64_t> counts);

  // A function of 64 random bits alone; no libm was used to build the tables, so the same on every
  // machine.
  std::size_t draw(std::uint64_t random) const;
  double probability(std::size_t of) const {
    return probabilities_.empty() ? 1.0 / static_cast<double>(classes_) : probabilities_[of];
  }

 private:
  std::size_t classes_ = 0;
  // Empty when uniform. Column c is class c below the threshold, of 2^32, and alias[c] above it.
  std::vector<double> probabilities_;
  std::vector<std::uint64_t> thresholds_;
  std::vector<std::uint32_t> aliases_;
};

}  // namespace paddle::nn
