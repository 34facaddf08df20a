// Early end of a job, and the choice of its best pass. Both depend on the held-out tests that
// trainer 0 makes at the ends of passes.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/tally.h"
#include "engine/config/job_config.h"
#include "engine/trainer/metrics.h"

namespace paddle::trainer {

// Returns the figures of a test, the cost first. For a reading without any example they give the
// names of the figures, and which values are better.
std::vector<nn::Value> figures_of(const Reading& reading);

struct PassTest {
  std::uint32_t pass = 0;
  std::vector<nn::Value> figures;

  friend bool operator==(const PassTest& a, const PassTest& b);
};

enum class EndReason : std::uint8_t {
  kNone = 0,     // the job goes on
  kWorse = 1,    // train.stop_after_worse
  kReached = 2,  // train.stop_when
};

class EarlyStop {
 public:
  // kUsage, with file and line: a key names a figure that the network does not have. The message
  // lists the figures that it has.
  static Status check(const config::TrainConfig& train, std::span<const nn::Value> figures);

  // The keys must have passed check().
  EarlyStop(const config::TrainConfig& train, std::span<const nn::Value> figures);

  const std::vector<PassTest>& tests() const { return tests_; }
  // Adds a test, and removes the tests of the same pass and of later passes.
  void add(PassTest test);
  bool has_test(std::uint32_t pass) const;

  // Whether the last test ends the job, and why.
  EndReason judge() const;
  // The best pass among those that `is_candidate` accepts, the earliest of equally good ones. Empty
  // without train.best, and when no such test has a finite value.
  std::optional<std::uint32_t> best(
      const std::function<bool(std::uint32_t pass)>& is_candidate) const;
  // The best of all passes, with only the figure that is compared; empty as best() is.
  std::optional<PassTest> best_value() const;
  // For the log: "auc was worse than 0.81, that of pass-00003, in the last 2 passes
  // (train.stop_after_worse)".
  std::string explain(EndReason reason) const;

 private:
  std::optional<double> value_of(const PassTest& test, const std::string& figure) const;
  bool is_better(double value, double than) const;

  std::string best_figure_;
  bool higher_is_better_ = false;
  bool one_is_best_ = false;
  std::uint32_t worse_max_ = 0;
  std::optional<config::StopWhen> stop_when_;
  std::vector<PassTest> tests_;  // by pass
};

// Results of the tests at the ends of passes: the files in save_dir, and the tally that carries
// trainer 0's decision to the other trainers.
//
// The file TESTS has one line per pass, "pass=3<tab>cost=0.41<tab>auc=0.8"; a resumed job reads it.
// The file BEST has one line, the name of the best pass whose snapshot exists.

// In the order of passes; empty when there is no such file. kData, kResource.
Result<std::vector<PassTest>> read_tests(const std::string& folder);
Status write_tests(const std::string& folder, std::span<const PassTest> tests);
// An empty `name` removes the file: no pass is the best one.
Status write_best(const std::string& folder, const std::string& name);

// Trainer 0's decision after a pass, which all trainers receive at the barrier that follows the
// pass. It is sent in the place of evaluators' counters. All other trainers send zeros, so that the
// sum over trainers is trainer 0's decision.
struct Decision {
  EndReason reason = EndReason::kNone;
  std::vector<nn::Value> figures = {};  // of the test of that pass; empty: no test
};
// `figures` are the figures of this job's tests, the same on all trainers.
Tally encode(const Decision& decision, std::span<const nn::Value> figures);
// Empty for a tally of another shape.
std::optional<Decision> decode_decision(const Tally& tally, std::span<const nn::Value> figures);

}  // namespace paddle::trainer
