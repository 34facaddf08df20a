// Sampler of classes from a fixed distribution by Walker's alias method: one random number a draw.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace paddle::nn {

class Sampler {
 public:
  // All of 1 to 2^32 - 1 classes with equal probability.
  static Sampler uniform(std::size_t classes);
  // In proportion to count^0.75 (Mikolov et al. 2013); a count of 0 counts as 1.
  static Sampler unigram(std::span<const std::uint64_t> counts);

  // A function of 64 random bits alone, and the same on every machine: no table comes from libm.
  std::size_t draw(std::uint64_t random) const;
  double probability(std::size_t c) const {
    return probabilities_.empty() ? 1.0 / static_cast<double>(classes_) : probabilities_[c];
  }

 private:
  std::size_t classes_ = 0;
  // Empty when uniform. Column c stands for class c below its threshold, of 2^32, and for its alias
  // above.
  std::vector<double> probabilities_;
  std::vector<std::uint64_t> thresholds_;
  std::vector<std::uint32_t> aliases_;
};

}  // namespace paddle::nn
