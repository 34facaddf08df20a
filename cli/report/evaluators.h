// The evaluators of a job: their curves on training and held-out data, and the best value of each.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/report/curves.h"
#include "cli/report/record.h"

namespace paddle::cli {

struct BestValue {
  double value = 0;
  std::uint64_t pass = 0;  // from 0
};

struct EvaluatorCurves {
  std::string name;  // "cost", or as job.toml or an own program calls it
  bool higher_is_better = false;
  Points held_out;
  // At the ends of the passes over all trainers; of a job that tells no such values, and of one
  // pass, the leader's log points.
  Points training;
  std::optional<BestValue> best, last;  // on held-out data; without any, on training data
};

bool is_higher_better(std::string_view evaluator);

// The first is the headline: the best known kind among the evaluators; of a job without any, the
// cost, which every job has.
std::vector<EvaluatorCurves> evaluator_curves(const ProcessRecord* leader);

}  // namespace paddle::cli
