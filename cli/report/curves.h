// The drawings of a job's report: curves of cost, throughput and evaluators, bars of processes.
#pragma once

#include <string>
#include <vector>

#include "cli/report/chart.h"
#include "cli/report/record.h"

namespace paddle::cli {

// What the page needs of a trainer.
struct TrainerCurve {
  const ProcessRecord* process = nullptr;
  Series cost, rate;
  double mean_rate = 0;  // examples/s over its lines
  double mean_busy = 0;  // the same while not waiting for others; 0: not known
  double samples = 0;    // in all
};
std::vector<TrainerCurve> trainer_curves(const JobRecord& record);

// Trainer 0, which tests and totals for all; null where there is none.
const ProcessRecord* leader_of(const JobRecord& record);
// The values of an evaluator on held-out data by batches; of the cost where the name is empty.
Series held_out(const ProcessRecord* leader, const std::string& evaluator);

// Figures as HTML; the bars come after a paragraph for each slow trainer.
std::string curve_figures(const JobRecord& record, const std::vector<TrainerCurve>& curves);
std::string bar_figures(const JobRecord& record, const std::vector<TrainerCurve>& curves);

}  // namespace paddle::cli
