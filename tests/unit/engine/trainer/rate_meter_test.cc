#include <gtest/gtest.h>

#include "engine/trainer/report.h"

namespace paddle::trainer {
namespace {

TimePoint at(double seconds) {
  return TimePoint(std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds)));
}

TEST(RateMeter, IsTheRateSinceTheLastWindow) {
  RateMeter meter;
  EXPECT_EQ(meter.add(at(100), 0, true), 0) << "nothing was measured";
  EXPECT_EQ(meter.add(at(101), 500, true), 500);
  EXPECT_EQ(meter.add(at(103), 1500, true), 500);
  EXPECT_EQ(meter.add(at(104), 3500, true), 2000);
}

TEST(RateMeter, ATestOrASaveBetweenPassesChangesNothing) {
  RateMeter meter;
  meter.add(at(0), 0, true);
  meter.add(at(1), 1000, true);
  EXPECT_EQ(meter.add(at(1.5), 1500, true), 1000) << "the test begins";
  EXPECT_EQ(meter.add(at(9), 1500, false), 1000) << "the next pass begins, without a batch yet";
  EXPECT_EQ(meter.add(at(9.5), 2000, true), 1000);
}

TEST(RateMeter, PassesShorterThanAWindowAddUp) {
  RateMeter meter;
  meter.add(at(0), 0, true);
  double rate = 0;
  for (int pass = 0; pass < 8; ++pass) {
    const auto done = static_cast<std::uint64_t>(pass + 1) * 100;
    rate = meter.add(at(pass + 0.25), done, true);
    meter.add(at(pass + 1), done, false);
  }
  EXPECT_EQ(rate, 400);
}

TEST(UsualRate, IsTheMedianOfTheLastReports) {
  UsualRate rate;
  const auto report = [&](std::uint64_t examples) {
    rate.add(examples, std::chrono::milliseconds(400));
    rate.add(0, std::chrono::milliseconds(100));
    return rate.take();
  };
  EXPECT_EQ(report(10), 0) << "the first batches of a process are slow";
  EXPECT_EQ(report(500), 0);
  EXPECT_EQ(report(500), 1000);
  EXPECT_EQ(report(500), 1000);
  EXPECT_EQ(report(5), 1000) << "disturbed once";
  EXPECT_EQ(rate.take(), 1000) << "a report without a batch";
  EXPECT_EQ(report(50), 1000);
  EXPECT_EQ(report(50), 100) << "three of five are slow";
}

}  // namespace
}  // namespace paddle::trainer
