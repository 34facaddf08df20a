// Forms of training progress: log lines in v0.10's format for people, metrics.jsonl for programs.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/result.h"
#include "engine/nn/evaluator.h"
#include "engine/trainer/score.h"

namespace paddle::trainer {

// The mean cost and the evaluators' values of a score.
struct Reading {
  std::uint64_t samples = 0;
  double cost = 0;
  std::vector<nn::Value> values;
};

// "Pass=0 Batch=100 samples=3200 AvgCost=6.1 CurrentCost=5.9 Eval: classification_error=0.93
// CurrentEval: classification_error=0.9"; without `current`, the line of a whole pass. Without
// evaluators, their part is left out; an evaluator without a value is "undefined".
std::string progress_line(std::uint32_t pass, std::uint64_t batch, const Reading& since_start,
                          const std::optional<Reading>& current);
// " Test samples=100 cost=5.1 Eval: classification_error=0.9 perplexity=164.02"
std::string test_line(const Reading& reading);
// "auc is undefined: all labels are of one class", for each such evaluator; "" if there is none.
std::string undefined_note(const Reading& reading);
// For people: "pass 3 of 10 (pass-00002): held-out cost 0.4026, auc 0.8806 (20000 samples)". `what`
// is "pass 3 of 10 (pass-00002)" or a longer place; `kind` is "held-out " or "".
std::string brief_line(std::string_view what, std::string_view kind, const Reading& reading);
// "Pass=0 over all trainers: samples=12800 AvgCost=6.1 discarded=0 Eval: auc=0.7"
std::string totals_line(std::uint32_t pass, const Reading& totals, std::uint64_t discarded);

// One JSON object per line:
// {"kind":"train","pass":0,"batch":100,"samples":3200,"cost":6.1,"classification_error":0.93,
// "current_cost":5.9,"first_cost":7.6,"examples_per_second":5000,"pass_done":0.41,"passes":3,
// "unix_ms":1700000000000}
// Each evaluator is a key, with null where it is undefined; "higher_is_better" has the names of
// those for which a higher value is better, with spaces between them; "one_is_best" has those for
// which the value nearest to 1 is best. A line of kind test also has the curves of its evaluators,
// each as x, y, x, y, ...: "curve:roc:auc":[0,0,0.1,0.4,1,1]. pass_done is the trained share of
// this pass, 0 to 1, where it is known. first_cost is the mean cost of the first batch of this run;
// later costs are compared with it to find divergence. Kinds: train (a log point; cost and
// evaluators since the start of the pass), pass (its end, with the job's totals as "total_samples",
// "total_cost", "total_<evaluator>"), test, save (with "path"), stop ("why" the job ends before its
// last pass), and pserver (the state of one port, periodically). "examples_per_busy_second"
// excludes the time spent waiting for pservers: in a synchronous job it shows which trainer is
// slowest.
class MetricsFile {
 public:
  // Appends to the file; with the path "" nothing is written.
  static Result<MetricsFile> open(const std::string& path);

  // A full disk loses lines, but never ends the job; it is logged once.
  void write(std::string_view kind, std::uint32_t pass, std::uint64_t batch, const Reading& reading,
             const JsonObject& more = {});
  // Writes a line with only `fields` between kind and time. Lines of concurrent writers do not mix.
  void write(std::string_view kind, const JsonObject& fields);

 private:
  struct File {
    std::string path;
    UniqueFd fd;
    std::mutex mutex;
    bool has_complained = false;
    bool is_torn = false;  // its last line has no end
  };
  std::unique_ptr<File> file_;
};

double examples_per_second(std::uint64_t samples, Duration elapsed);  // 0 if no time has elapsed

// The fields "total_..." of a pass.
JsonObject totals_fields(const Reading& totals);

}  // namespace paddle::trainer
