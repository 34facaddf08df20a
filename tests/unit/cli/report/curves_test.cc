#include "cli/report/curves.h"

#include <array>
#include <cmath>

#include <gtest/gtest.h>

namespace paddle::cli {
namespace {

TEST(Thinned, KeepsTheExtremesAndTheEnds) {
  Points points;
  for (int i = 0; i < 100'000; ++i) points.emplace_back(i, i == 77'777 ? 9 : i == 123 ? -4 : 1);
  const Points kept = thinned(points);
  EXPECT_LE(kept.size(), kPointsMax);
  EXPECT_GE(kept.size(), kPointsMax / 2);
  EXPECT_EQ(kept.front().first, 0);
  EXPECT_EQ(kept.back().first, 99'999);
  EXPECT_TRUE(std::ranges::is_sorted(kept));
  for (const auto& extreme : {std::pair(77'777.0, 9.0), std::pair(123.0, -4.0)}) {
    EXPECT_EQ(std::ranges::count(kept, extreme), 1);
  }
}

TEST(Thinned, LeavesOutWhatIsNoNumber) {
  EXPECT_EQ(thinned({{1, std::nan("")}, {2, 5}, {3, INFINITY}, {NAN, 1}}), (Points{{2, 5}}));
}

ProcessRecord trainer_of(int number, double rate) {
  ProcessRecord trainer;
  trainer.node = "n";
  trainer.role = "trainer-" + std::to_string(number);
  MetricsLine line;
  line.kind = "pass";
  line.samples = 32;
  line.cost = 1.5;
  line.batch = 7;
  line.numbers = {{"examples_per_second", rate}};
  trainer.metrics.push_back(line);
  return trainer;
}

TEST(TrainerCurves, ShortPassesShowTheLineOfTheirEnd) {
  JobRecord record;
  record.processes = {trainer_of(0, 100)};
  record.processes.emplace_back().role = "pserver-0";
  const auto curves = trainer_curves(record);
  ASSERT_EQ(curves.size(), 1U);
  EXPECT_EQ(curves[0].cost, (Points{{7, 1.5}}));
  EXPECT_EQ(curves[0].samples, 32);
  EXPECT_EQ(curves[0].mean_rate, 100);
  MetricsLine log_point = record.processes[0].metrics[0];
  log_point.kind = "train";
  log_point.batch = 3;
  record.processes[0].metrics.insert(record.processes[0].metrics.begin(), log_point);
  EXPECT_EQ(trainer_curves(record)[0].cost, (Points{{3, 1.5}})) << "log points, and not the end";
}

std::vector<MetricsLine> lines_of(const std::vector<std::array<std::uint64_t, 3>>& points) {
  std::vector<MetricsLine> lines;
  for (const auto& [pass, batch, samples] : points) {
    MetricsLine& line = lines.emplace_back();
    line.kind = "train";
    line.pass = pass;
    line.batch = batch;
    line.samples = samples;
  }
  return lines;
}

// A run that goes on within a pass counts from 0.
TEST(PassSamples, AreThoseOfAllRuns) {
  auto found = pass_samples(lines_of({{0, 10, 80}, {0, 20, 160}, {1, 10, 80}, {1, 15, 120}}));
  EXPECT_EQ(found[0].samples, 160);
  EXPECT_EQ(found[1].samples, 120);
  EXPECT_FALSE(found[1].is_split);
  found = pass_samples(lines_of({{1, 10, 80}, {1, 15, 120}, {1, 20, 40}, {1, 22, 56}, {2, 1, 8}}));
  EXPECT_EQ(found[1].samples, 176);
  EXPECT_TRUE(found[1].is_split);
  EXPECT_FALSE(found[2].is_split);
  EXPECT_EQ(found[2].samples, 8);
  found = pass_samples(lines_of({{1, 10, 80}, {1, 15, 60}, {1, 20, 24}}));
  EXPECT_EQ(found[1].samples, 164) << "three runs";
}

TEST(PassSamples, OfWhatIsTrainedAgainCountOnce) {
  auto found = pass_samples(lines_of({{1, 10, 80}, {1, 20, 160}, {1, 10, 80}, {1, 30, 240}}));
  EXPECT_EQ(found[1].samples, 240);
  EXPECT_FALSE(found[1].is_split);
}

TEST(TrainerCurves, OfManyTheFastestAndTheSlowestAreShown) {
  JobRecord record;
  for (int i = 0; i < 20; ++i) record.processes.push_back(trainer_of(i, 100 + i));
  const auto curves = trainer_curves(record);
  const auto few = spread_by_rate(curves, 7);
  ASSERT_EQ(few.size(), 7U);
  EXPECT_EQ(few.front()->process->role, "trainer-19");
  EXPECT_EQ(few.back()->process->role, "trainer-0");
  EXPECT_EQ(spread_by_rate(curves, 20)[0]->process->role, "trainer-0") << "all, in their order";
}

TEST(TrainerCurves, SlowTrainersAreThoseOfTheWholeJob) {
  JobRecord record;
  record.processes = {trainer_of(0, 100), trainer_of(1, 110), trainer_of(2, 60)};
  const auto slow = slow_trainers(trainer_curves(record));
  ASSERT_EQ(slow.size(), 1U);
  EXPECT_EQ(slow[0].role, "trainer-2");
  EXPECT_EQ(slow[0].median, 105);
  // The rates while not waiting count only where every trainer has one.
  for (auto& trainer : record.processes) trainer.metrics[0].numbers[0].second = 100;
  for (const double busy : {1000.0, 110.0}) {
    const int at = busy > 500 ? 0 : 1;
    record.processes[static_cast<std::size_t>(at)].metrics[0].numbers.emplace_back(
        "examples_per_busy_second", busy);
  }
  EXPECT_TRUE(slow_trainers(trainer_curves(record)).empty());
  record.processes[2].metrics[0].numbers.emplace_back("examples_per_busy_second", 900);
  ASSERT_EQ(slow_trainers(trainer_curves(record)).size(), 1U);
  EXPECT_EQ(slow_trainers(trainer_curves(record))[0].role, "trainer-1");
}

}  // namespace
}  // namespace paddle::cli
