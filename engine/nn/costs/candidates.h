// Candidate classes of a sampled cost: the label of an example, and classes drawn at random.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

#include "base/rng.h"
#include "engine/kernels/portable_math.h"
#include "engine/nn/costs/sampler.h"
#include "engine/nn/run.h"

namespace paddle::nn {

class Candidates {
 public:
  // `corrected`: for nce, whose scores are compared with the probability of a draw.
  Candidates(Sampler sampler, std::size_t negatives, bool corrected)
      : sampler_(std::move(sampler)), negatives_(negatives), corrected_(corrected) {}

  // The label is the first candidate, the negatives follow.
  std::size_t size() const { return 1 + negatives_; }
  bool corrected() const { return corrected_; }
  // Source of the negatives of one example of layer `layer`, drawn in their order.
  static Rng draws(std::uint64_t seed, std::string_view layer, std::size_t example) {
    return Rng(example_stream(seed, layer, example));
  }
  std::uint64_t draw(Rng& rng) const { return sampler_.draw(rng.next()); }
  // Whether candidate number k takes no part: a negative that is the label, except in nce.
  bool is_left_out(std::size_t k, std::uint64_t id, std::uint64_t label) const {
    return k > 0 && id == label && !corrected_;
  }
  // To be subtracted from the score of a candidate.
  float correction(std::uint64_t id) const {
    if (!corrected_) return 0;
    return static_cast<float>(
        kernels::logarithm(static_cast<double>(negatives_) * sampler_.probability(id)));
  }

 private:
  Sampler sampler_;
  std::size_t negatives_;
  bool corrected_;
};

}  // namespace paddle::nn
