// Candidates of a sampled cost as arrays for its op.
#pragma once

#include <optional>
#include <string>

#include "engine/nn/costs/candidates.h"
#include "engine/nn/labels.h"
#include "engine/nn/plan/batch_input.h"

namespace paddle::nn {

// For op::SampledCost. Makes `indices`: for each candidate of an example the row of its weight and,
// with a bias, that of the bias; kNoRow for one that takes no part. For nce also `scales`: the
// corrections of all candidates.
class CandidateRows final : public BatchInput {
 public:
  struct Options {
    std::string layer;  // whose stream the draws are from
    std::size_t weight = 0;
    std::optional<std::size_t> bias;
  };

  CandidateRows(Options options, Labels labels, Candidates candidates)
      : options_(std::move(options)),
        labels_(std::move(labels)),
        candidates_(std::move(candidates)) {}

  Status fill(const Run& run, InputArrays& arrays) const override;

 private:
  Options options_;
  Labels labels_;
  Candidates candidates_;
};

}  // namespace paddle::nn
