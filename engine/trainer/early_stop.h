// The end of a job before its last pass, and its best pass: both are judged by the tests that
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

// The figures of a test, the cost first: as a network without an example gives them, they tell
// their names and which way is better.
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
  // kUsage, with file and line: a key names a figure that the network has not. The message lists
  // those that it has.
  static Status check(const config::TrainConfig& train, std::span<const nn::Value> figures);

  // The keys must have passed check().
  EarlyStop(const config::TrainConfig& train, std::span<const nn::Value> figures);

  const std::vector<PassTest>& tests() const { return tests_; }
  // The test of that pass takes the place of those of it and of later passes.
  void add(PassTest test);
  bool has_test(std::uint32_t pass) const;

  // After the last test.
  EndReason judge() const;
  // The best pass among those that `is_candidate` takes, the earliest of equals. Nothing without
  // train.best, and when no such test has a number.
  std::optional<std::uint32_t> best(
      const std::function<bool(std::uint32_t pass)>& is_candidate) const;
  // For the log: "auc was worse than 0.81, that of pass-00003, in 2 passes in a row
  // (train.stop_after_worse)".
  std::string explain(EndReason reason) const;

 private:
  std::optional<double> value_of(const PassTest& test, const std::string& figure) const;
  bool is_better(double value, double than) const {
    return higher_is_better_ ? value > than : value < than;
  }

  std::string best_figure_;
  bool higher_is_better_ = false;
  std::uint32_t worse_max_ = 0;
  std::optional<config::StopWhen> stop_when_;
  std::vector<PassTest> tests_;  // by pass
};

// Tests at the ends of passes, in save_dir and on their way from trainer 0 to the others.
//
// The file TESTS has a line a pass, "pass=3<tab>cost=0.41<tab>auc=0.8": a job that goes on knows
// them. The file BEST has one line, the name of the best pass whose snapshot is there.

// In the order of passes; none when there is no such file. kData, kResource.
Result<std::vector<PassTest>> read_tests(const std::string& folder);
Status write_tests(const std::string& folder, std::span<const PassTest> tests);
// "": no pass is the best one, and there is no file.
Status write_best(const std::string& folder, const std::string& name);

// Of trainer 0, for all, when they meet after a pass. It travels in the place of evaluators'
// counters: those of the others are zero.
struct Decision {
  EndReason reason = EndReason::kNone;
  std::vector<nn::Value> figures = {};  // of the test of that pass; empty: it was not tested
};
// `figures` has the names that all trainers know.
Tally encode(const Decision& decision, std::span<const nn::Value> figures);
// Nothing for a tally of another shape.
std::optional<Decision> decode_decision(const Tally& tally, std::span<const nn::Value> figures);

}  // namespace paddle::trainer
