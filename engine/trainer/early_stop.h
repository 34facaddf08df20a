// The end of a job before its last pass, and its best pass: both are judged by the tests that
// trainer 0 makes at the ends of passes.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

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

}  // namespace paddle::trainer
