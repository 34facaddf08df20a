// Jobs beside each other: the settings that differ, the figures with the best one marked, and the
// curves of each figure over each other.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "cli/console/console.h"
#include "cli/report/curves.h"
#include "cli/report/record.h"

namespace paddle::cli {

struct ComparedJob {
  std::string job;
  std::string state;  // "running", "failed", "done", or another state of its trainers
  RunRecord run;
  // job.toml after --set, the options of the command line by their names ("--trainers"), "git
  // commit" and "paddlectl" (its version). A setting that is not known is left out.
  std::map<std::string, std::string> settings;
  std::vector<EvaluatorCurves> evaluators;  // of at most kPointsMax points, the headline first
  double examples_per_second = 0;           // of all trainers; 0: not known
  std::int64_t started_unix_ms = 0;
  std::int64_t duration_ms = 0;  // 0: not known, or it runs
  std::string metrics;           // trainer 0's file, below the job's folder; "" if there is none

  const EvaluatorCurves* evaluator(const std::string& name) const;  // null: it has no such values
};
ComparedJob compared_job(const JobRecord& record);

// The rank of an evaluator's value: lower is better.
double rank_of(const EvaluatorCurves& of, double value);

struct Comparison {
  std::vector<ComparedJob> jobs;
  std::vector<std::string> different;  // keys of settings, sorted
  std::vector<std::string> figures;    // names of evaluators with a value, the headline first
};
Comparison compare(std::vector<ComparedJob> jobs);

// The jobs with the best value of a figure: its best or its last one. If some jobs have values on
// held-out data, only these count. Empty unless two jobs have a value.
std::vector<std::string> best_jobs(const Comparison& comparison, const std::string& figure,
                                   std::optional<BestValue> EvaluatorCurves::*value);

// A column for each job; from five jobs on, a row for each. "*" marks the best values.
Table comparison_table(const Comparison& comparison);
// The chart of the first figure that has curves, of the best eight jobs, with a legend; "" if there
// is none. For a terminal of so many columns.
std::string comparison_chart(const Comparison& comparison, std::size_t columns);
// RFC 4180, a row for each job. Passes count from 1. A text that a spreadsheet would compute gets
// an apostrophe in front.
std::string comparison_csv(const Comparison& comparison);
// {"jobs": [{"job", "state", "tags", "note", "git", "settings", "evaluators" (as in job_json()),
// "examples_per_second", "started_unix_ms", "duration_ms", "metrics", "folder"}], "different",
// "figures", "best": {figure: {"best": jobs, "last": jobs}}}. `output`: the folder of results; ""
// leaves "folder" out.
Json comparison_json(const Comparison& comparison, const std::string& output = "");

}  // namespace paddle::cli
