#include "cli/job/push_meter.h"

#include <gtest/gtest.h>

#include "tests/support/fake_cluster.h"

namespace paddle::cli {
namespace {

TEST(PushMeter, ShowsRateAndTimeLeftOnceTheyMeanSomething) {
  FakeCluster fake(1);
  PushMeter meter(fake.context, 1);
  const auto progress = meter.progress();
  EXPECT_EQ(meter.summary(), "") << "nothing moved";
  EXPECT_TRUE(progress(4'000'000, 0));
  fake.clock.time += std::chrono::seconds(10);
  EXPECT_TRUE(progress(0, 1'000'000));
  EXPECT_TRUE(fake.err.str().ends_with("pushing: 1.0 MB of 4.0 MB, 100 kB/s, 30 s left\n"))
      << fake.err.str();
  EXPECT_EQ(meter.summary(), ", 1.0 MB at 100 kB/s");
  fake.interrupted = true;
  EXPECT_FALSE(progress(0, 1)) << "Ctrl-C stops the push";
}

TEST(PushMeter, TellsTheWholeSizeOnceEveryNodeHasSaidWhatItLacks) {
  FakeCluster fake(3);
  PushMeter meter(fake.context, 3);
  const auto first = meter.progress(), second = meter.progress(), third = meter.progress();
  const auto shown = [&] {
    fake.clock.time += std::chrono::seconds(20);
    return std::exchange(fake.err, std::ostringstream()).str();
  };
  first(100, 0);
  EXPECT_EQ(shown(), "") << "100 B are a part only";
  first(0, 100);
  EXPECT_EQ(shown(), "pushing: 100 B so far, 5 B/s\n");
  second(0, 0);  // it has everything
  EXPECT_EQ(shown().find(" of "), std::string::npos);
  third(900, 0);
  EXPECT_EQ(shown(), "pushing: 100 B of 1.0 kB, 1 B/s, 540 s left\n");
}

}  // namespace
}  // namespace paddle::cli
