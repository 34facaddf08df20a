// Curves of a job, computed from its record: for its trainers, for held-out tests and for
// evaluators, with the best value of each evaluator.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/report/record.h"
#include "cli/watch/view.h"

namespace paddle::cli {

using Points = std::vector<std::pair<double, double>>;  // ascending x

constexpr std::size_t kPointsMax = 400;  // per curve

// At most kPointsMax of the finite points: the lowest and the highest of each group of neighbours.
Points thinned(Points points);

// By pass.
std::map<std::uint64_t, PassSamples> pass_samples(const std::vector<MetricsLine>& metrics);

struct TrainerCurve {
  const ProcessRecord* process = nullptr;
  Points cost;           // x: batches over all passes
  Points rate;           // examples/s; x: seconds since the process started
  double mean_rate = 0;  // examples/s over its lines
  double mean_busy = 0;  // examples/s while not waiting for others; 0: not known
  double samples = 0;    // in total
};
std::vector<TrainerCurve> trainer_curves(const JobRecord& record);

// At most `room` of the curves: all, or else the fastest, some in between, and the slowest.
std::vector<const TrainerCurve*> spread_by_rate(const std::vector<TrainerCurve>& curves,
                                                std::size_t room);

// The trainers that are slow over the whole job, by the rule of `status`.
std::vector<SlowTrainer> slow_trainers(const std::vector<TrainerCurve>& curves);

// Trainer 0, which tests and sums values for all trainers; null if there is none.
const ProcessRecord* leader_of(const JobRecord& record);

struct BestValue {
  double value = 0;
  std::uint64_t pass = 0;  // from 0
};

struct EvaluatorCurves {
  std::string name;  // "cost", or the name in job.toml or in a user's own program
  bool higher_is_better = false;
  bool one_is_best = false;  // the nearer to 1, the better; then higher_is_better does not count
  Points held_out;
  // A point for each end of a pass, over all trainers. If the job has only one pass or lacks such
  // values: the log points of trainer 0 (leader_of()).
  Points training;
  std::optional<BestValue> best, last;  // on held-out data; if there is none, on training data
};

// The first one is the headline: the best known kind among the evaluators or, without such a kind,
// the cost, which every job has.
std::vector<EvaluatorCurves> evaluator_curves(const ProcessRecord* leader);

// The curve behind an evaluator's value in the last test that has it.
struct TestCurve {
  std::string kind;  // "roc", "precision_recall", "calibration", or another one of a user's program
  std::string name;  // of the evaluator
  std::uint64_t pass = 0;  // from 0
  Points points;
};

// By kind and name, at most kTestCurvesMax of them.
constexpr std::size_t kTestCurvesMax = 24;
std::vector<TestCurve> test_curves(const ProcessRecord* leader);

}  // namespace paddle::cli
