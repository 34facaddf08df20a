#include "cli/sweep/halving.h"

#include <cmath>
#include <set>
#include <string>
#include <tuple>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/rng.h"
#include "tests/support/process.h"
#include "tests/support/temporary_folder.h"

namespace paddle::cli {
namespace {

TEST(Halving, ATrialGoesOnAmongTheBestThirdOfARung) {
  Halving halving(3, 1);
  EXPECT_TRUE(halving.goes_on(0, 1, 0.5)) << "the first is the best";
  EXPECT_FALSE(halving.goes_on(1, 1, 0.6));
  EXPECT_TRUE(halving.goes_on(2, 1, 0.4));
  EXPECT_FALSE(halving.goes_on(3, 1, 0.45));
  EXPECT_TRUE(halving.goes_on(0, 2, 0.9)) << "no rung is between 1 and 3";
  EXPECT_FALSE(halving.goes_on(4, 1, 0.42)) << "one of five";
  EXPECT_TRUE(halving.goes_on(5, 1, 0.41)) << "two of six";
  EXPECT_TRUE(halving.goes_on(0, 3, 0.9)) << "the first at the next rung";
  EXPECT_FALSE(halving.goes_on(2, 3, 0.95));
  EXPECT_FALSE(halving.goes_on(5, 3, NAN));
}

TEST(Halving, RungsBeginWithPassesMin) {
  Halving halving(2, 4);
  EXPECT_TRUE(halving.goes_on(0, 4, 1));
  EXPECT_TRUE(halving.goes_on(1, 3, 9));
  EXPECT_FALSE(halving.goes_on(1, 4, 9));
}

struct TracePoint {
  int trial, passes;
  double value;
};

// Thirty trials of 27 passes, six at a time in a changing order, a few without a value.
std::vector<TracePoint> trace() {
  std::vector<TracePoint> points;
  std::vector<int> done(30);
  Rng rng(46);
  for (int left = 30 * 27; left > 0;) {
    int first = 0;
    while (done[static_cast<std::size_t>(first)] == 27) ++first;
    const int trial = first + static_cast<int>(rng.below(6));
    if (trial >= 30 || done[static_cast<std::size_t>(trial)] == 27) continue;
    const int passes = ++done[static_cast<std::size_t>(trial)];
    const double level = static_cast<double>(mix64(static_cast<std::uint64_t>(trial)) % 100) / 100;
    double value = level + 1.0 / passes + 0.2 * rng.uniform();
    if (rng.below(100) == 0) value = NAN;
    if (rng.below(20) == 0) value = level;  // some are equal
    points.push_back({trial, passes, value});
    --left;
  }
  return points;
}

// A digit for each point of a trial that was not pruned before: 1 if it goes on. A pruned trial
// reports its points too, as one that has not stopped yet.
std::string decisions(const std::vector<TracePoint>& points, std::uint64_t reduction,
                      std::uint64_t passes_min, bool higher_is_better) {
  Halving halving(reduction, passes_min);
  std::set<int> pruned;
  std::string text;
  for (const TracePoint& point : points) {
    const bool goes_on = halving.goes_on(static_cast<std::size_t>(point.trial),
                                         static_cast<std::uint64_t>(point.passes),
                                         higher_is_better ? -point.value : point.value);
    if (pruned.contains(point.trial)) {
      EXPECT_FALSE(goes_on) << point.trial;
      continue;
    }
    if (!goes_on) pruned.insert(point.trial);
    text += goes_on ? '1' : '0';
  }
  return text;
}

constexpr const char* kOptuna = R"(import sys, warnings
try:
    import optuna
except ImportError:
    sys.exit(77)
warnings.simplefilter("ignore")
optuna.logging.set_verbosity(optuna.logging.ERROR)
reduction, passes_min, direction = int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
study = optuna.create_study(direction=direction, pruner=optuna.pruners.SuccessiveHalvingPruner(
    min_resource=passes_min, reduction_factor=reduction, min_early_stopping_rate=0))
trials, pruned, text = {}, set(), ""
for line in open(sys.argv[1]):
    number, step, value = line.split()
    if number in pruned:
        continue
    if number not in trials:
        trials[number] = study.ask()
    trials[number].report(float(value), int(step))
    prunes = trials[number].should_prune()
    text += "0" if prunes else "1"
    if prunes:
        pruned.add(number)
        study.tell(trials[number], state=optuna.trial.TrialState.PRUNED)
print(text)
)";

// As optuna 3.1 decided; the next test records it anew where optuna is installed.
TEST(Halving, DecidesAsTheRecordedPrunerOfOptuna) {
  const std::string recorded =
      "1101110111100111011111111111111111111100110110101111100000000001100011101010110010";
  EXPECT_EQ(decisions(trace(), 3, 1, false), recorded);
}

TEST(Halving, DecidesAsThePrunerOfOptuna) {
  const test::TemporaryFolder folder;
  std::string text;
  for (const TracePoint& point : trace())
    text += fmt::format("{} {} {}\n", point.trial, point.passes, point.value);
  const std::string file = folder.write("trace.txt", text);
  const std::string script = folder.write("replay.py", kOptuna);
  for (const auto& [reduction, passes_min, is_max] :
       {std::tuple(3, 1, false), std::tuple(3, 1, true), std::tuple(2, 2, false),
        std::tuple(4, 1, true), std::tuple(5, 3, false)}) {
    test::Process replay({"/usr/bin/python3", script, file, std::to_string(reduction),
                          std::to_string(passes_min), is_max ? "maximize" : "minimize"},
                         folder / fmt::format("{}-{}-{}.txt", reduction, passes_min, is_max));
    const auto code = replay.wait();
    if (code == 77 || code == 127) GTEST_SKIP() << "no optuna here";
    ASSERT_EQ(code, 0) << replay.output();
    EXPECT_EQ(decisions(trace(), static_cast<std::uint64_t>(reduction),
                        static_cast<std::uint64_t>(passes_min), is_max) +
                  "\n",
              replay.output());
  }
}

}  // namespace
}  // namespace paddle::cli
