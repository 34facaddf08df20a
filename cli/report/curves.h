// Curves of a job, computed from its record: those of its trainers, of held-out tests and of the
// evaluators, and the best value of each evaluator.
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

constexpr std::size_t kPointsMax = 400;  // of a curve

// At most kPointsMax of the finite points: of each run of points the lowest and the highest.
Points thinned(Points points);

// The examples that a trainer has trained of a pass, over all runs of the job: each counts from 0.
struct PassSamples {
  double samples = 0;
  bool is_split = false;  // among several runs
};
std::map<std::uint64_t, PassSamples> pass_samples(const std::vector<MetricsLine>& metrics);

struct TrainerCurve {
  const ProcessRecord* process = nullptr;
  Points cost;           // by batches of all passes
  Points rate;           // examples/s, by seconds since the process started
  double mean_rate = 0;  // examples/s over its lines
  double mean_busy = 0;  // the same while not waiting for others; 0: not known
  double samples = 0;    // in all
};
std::vector<TrainerCurve> trainer_curves(const JobRecord& record);

// At most `room` of the curves: all, or else the fastest, some between, and the slowest.
std::vector<const TrainerCurve*> spread_by_rate(const std::vector<TrainerCurve>& curves,
                                                std::size_t room);

// The trainers that `status` would have called slow, over the whole job.
std::vector<SlowTrainer> slow_trainers(const std::vector<TrainerCurve>& curves);

// Trainer 0, which tests and totals for all; null where there is none.
const ProcessRecord* leader_of(const JobRecord& record);

struct BestValue {
  double value = 0;
  std::uint64_t pass = 0;  // from 0
};

struct EvaluatorCurves {
  std::string name;  // "cost", or as job.toml or an own program calls it
  bool higher_is_better = false;
  Points held_out;
  // A point for each end of a pass, over all trainers. A job of one pass, or without such values,
  // has the log points of its leader (leader_of()).
  Points training;
  std::optional<BestValue> best, last;  // on held-out data; without any, on training data
};

bool is_higher_better(std::string_view evaluator);

// The first is the headline: the best known kind among the evaluators; of a job without any, the
// cost, which every job has.
std::vector<EvaluatorCurves> evaluator_curves(const ProcessRecord* leader);

}  // namespace paddle::cli
