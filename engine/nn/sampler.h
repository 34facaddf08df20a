// Sampler of classes from a fixed distribution by Walker's alias method: one random number per
// draw.
#pragma once

#include <cstddef>
#include <cstdint>
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
  std::size_t draw(std::uint64_t random) const;
  double probability(std::size_t c) const {
    return probabilities_.empty() ? 1.0 / static_cast<double>(classes_) : probabilities_[c];
  }

 private:
  std::size_t classes_ = 0;
  // Empty when uniform. Column c gives class c for 32 random bits below thresholds_[c], and class
  // aliases_[c] otherwise.
  std::vector<double> probabilities_;
  std::vector<std::uint64_t> thresholds_;
  std::vector<std::uint32_t> aliases_;
};

}  // namespace paddle::nn
