#include "cli/watch/progress.h"

#include <cmath>

#include <gtest/gtest.h>

#include "cli/console/console.h"

namespace paddle::cli {
namespace {

remote::Progress trainer(std::uint32_t pass, double done, double rate, double cost) {
  remote::Progress progress;
  progress.pass = pass;
  progress.passes = 10;
  progress.pass_done = done;
  progress.examples_per_second = rate;
  progress.cost = cost;
  progress.batch = 1;
  return progress;
}

TEST(JobProgress, IsThatOfTheLeastTrainerWithTheSpeedOfAll) {
  EXPECT_FALSE(job_progress({}));
  const auto job = job_progress({trainer(1, 0.9, 100, 2), trainer(2, 0.1, 50, 4)});
  ASSERT_TRUE(job);
  EXPECT_EQ(job->pass, 1U);
  EXPECT_EQ(job->passes, 10U);
  EXPECT_EQ(job->pass_done, 0.9);
  EXPECT_EQ(job->examples_per_second, 150);
  EXPECT_EQ(job->cost, 3);
}

TEST(JobProgress, ATrainerWithoutABatchHasNoCost) {
  remote::Progress begins = trainer(1, 0, 0, 0);
  begins.batch = 0;
  EXPECT_EQ(job_progress({begins, trainer(1, 0.5, 1, 4)})->cost, 4);
  EXPECT_FALSE(job_progress({begins})->cost);
}

TEST(JobProgress, ComesFromTheMetricsOfProgramsOfOnesOwnToo) {
  const auto line =
      parse_metrics(R"({"kind":"train","pass":1,"passes":3,"pass_done":0.25,"batch":9,"cost":0.5,)"
                    R"("examples_per_second":70,"unix_ms":5})");
  const auto progress = progress_of(*line);
  ASSERT_TRUE(progress);
  EXPECT_EQ(progress->pass, 1U);
  EXPECT_EQ(progress->passes, 3U);
  EXPECT_EQ(progress->pass_done, 0.25);
  EXPECT_EQ(progress->examples_per_second, 70);
  EXPECT_FALSE(progress_of(*parse_metrics(R"({"kind":"test","pass":1,"cost":1})")));
  const auto odd =
      progress_of(*parse_metrics(R"({"kind":"train","passes":-3,"pass_done":1e300,"cost":1})"));
  EXPECT_EQ(odd->passes, 0U);
  EXPECT_EQ(odd->pass_done, 1);
}

TEST(TimeLeft, IsForetoldFromWhatWasSeen) {
  TimeLeft left;
  left.add(1000, 1);
  EXPECT_FALSE(left.left_ms(10));
  left.add(11'000, 2);
  EXPECT_EQ(left.left_ms(10), 80'000);
  left.add(20'000, 1.5);  // started again: its pace is that from before
  EXPECT_EQ(left.left_ms(10), 85'000);
  left.add(50'000, 2.5);
  EXPECT_EQ(left.left_ms(10), 150'000);
}

TEST(TimeLeft, IsNotForetoldFromTheFirstSeconds) {
  TimeLeft left;
  for (int second = 0; second < 5; ++second) {
    left.add(1000 * second, second * 0.01);
    EXPECT_FALSE(left.left_ms(10)) << second;
  }
  left.add(5000, 0.05);
  EXPECT_NEAR(static_cast<double>(left.left_ms(10).value_or(0)), 995'000, 1);
}

// In a job of 28 minutes, kills, pauses and tests do not change the pace.
TEST(TimeLeft, ManyRestartsDoNotChangeThePace) {
  TimeLeft left;
  std::int64_t now = 0;
  double position = 0;
  for (int kill = 0; kill < 20; ++kill) {
    for (int second = 0; second < 20; ++second) {
      left.add(now += 1000, position);
      position += 0.01;
      if (const auto ms = left.left_ms(10)) {
        EXPECT_NEAR(static_cast<double>(*ms), (10 - position) * 100'000, 6000);
      }
    }
    position -= 0.05;
    left.interrupt();
    now += 60'000;  // stopped, and resumed a minute later
  }
}

TEST(TimeLeft, CountsTestsAndSnapshotsBetweenPasses) {
  TimeLeft left;
  for (int pass = 0; pass < 3; ++pass) {
    left.add(40'000 * pass, pass);
    left.add(40'000 * pass + 30'000, pass + 1);
  }
  left.add(120'000, 3);
  EXPECT_EQ(left.left_ms(10), 280'000);
}

TEST(TimeLeft, FollowsAChangeOfThePace) {
  TimeLeft left;
  for (int minute = 0; minute <= 60; ++minute) left.add(60'000 * minute, minute * 0.1);
  for (int minute = 1; minute <= 120; ++minute) left.add(60'000 * (60 + minute), 6 + minute * 0.01);
  EXPECT_NEAR(static_cast<double>(left.left_ms(10).value_or(0)) / 60'000.0, 280, 3);
}

TEST(TimeLeft, IsNotForetoldFromNothing) {
  TimeLeft left;
  left.add(0, 1);
  left.add(100'000, 1);
  EXPECT_FALSE(left.left_ms(10)) << "nothing moves";
  left.add(200'000, 11);
  EXPECT_FALSE(left.left_ms(10)) << "beyond the end";
}

TEST(CostTrail, ShowsTheCourseInFewCells) {
  CostTrail trail;
  EXPECT_EQ(trail.sparkline(true), "");
  for (const double cost : {7.0, 6.0, 5.0, 0.0}) trail.add(cost);
  EXPECT_EQ(trail.sparkline(true), "█▇▆▁");
  EXPECT_EQ(trail.sparkline(false), "#**_");
  trail.add(std::nan(""));
  for (int i = 0; i < 10'000; ++i) trail.add(10'000 - i);
  const std::size_t cells = display_width(trail.sparkline(true));
  EXPECT_GE(cells, 8U);
  EXPECT_LE(cells, 16U);
}

TEST(CostTrail, AnEvenCourseIsALine) {
  CostTrail trail;
  trail.add(2);
  trail.add(2);
  EXPECT_EQ(trail.sparkline(false), "__");
}

TEST(ProgressTexts, AreThoseOfALine) {
  EXPECT_EQ(pass_text(1, 10), "2/10");
  EXPECT_EQ(pass_text(0, 0), "1");
  EXPECT_EQ(share_text(0.999), "99 %");
  EXPECT_EQ(share_text(7), "100 %");
  EXPECT_EQ(rate_text(5031.4), "5,031/s");
  EXPECT_EQ(rate_text(1234567), "1,234,567/s");
  EXPECT_EQ(rate_text(999), "999/s");
  EXPECT_EQ(rate_text(std::nan("")), "0/s");
  EXPECT_EQ(left_text(45'200), "46 s left");
  EXPECT_EQ(left_text(12 * 60'000), "12 min left");
  EXPECT_EQ(left_text(200 * 60'000), "3 h 20 min left");
  EXPECT_EQ(left_text(51 * 3'600'000LL), "2 d 03 h left");
  EXPECT_EQ(cost_text(608492362000000031725946142720.0), "6.08492e+29");
}

}  // namespace
}  // namespace paddle::cli
