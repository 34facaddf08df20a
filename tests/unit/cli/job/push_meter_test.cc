#include "cli/job/push_meter.h"

#include <gtest/gtest.h>

#include "tests/support/fake_cluster.h"

namespace paddle::cli {
namespace {

TEST(PushMeter, ShowsRateAndTimeLeftOnceTheyMeanSomething) {
  FakeCluster fake(1);
  PushMeter meter(fake.context);
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

}  // namespace
}  // namespace paddle::cli
