// Jobs of hundreds of trainers and pservers in this process.
#include <thread>

#include <gtest/gtest.h>

#include "tests/sim/scale/job.h"

namespace paddle::sim {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::uint32_t kShare = 8;  // they are some ten times as slow
#else
constexpr std::uint32_t kShare = 1;
#endif

ScaleOptions great(wire::Strategy strategy) {
  return {.trainers = 800 / kShare,
          .pservers = 200 / kShare,
          .strategy = strategy,
          .batches = 2,
          .threads = std::thread::hardware_concurrency()};
}

TEST(ScaleSim, SyncOf800TrainersAnd200PserversAppliesEveryRowOnce) {
  ScaleOptions options = great(wire::STRATEGY_SYNC);
  options.has_dense = false;
  EXPECT_EQ(ScaledJob(options).run().error, "");
}

TEST(ScaleSim, AsyncOf800TrainersAnd200PserversAppliesEveryPushOnce) {
  ScaleOptions options = great(wire::STRATEGY_ASYNC);
  options.has_sparse = false;
  EXPECT_EQ(ScaledJob(options).run().error, "");
}

TEST(ScaleSim, BothKindsOfPortsUnderEachStrategy) {
  for (const auto strategy : {wire::STRATEGY_SYNC, wire::STRATEGY_ASYNC}) {
    for (const std::uint32_t trainers : {1U, 2U, 60U}) {
      const ScaleReport report =
          ScaledJob({.trainers = trainers, .pservers = 15, .strategy = strategy}).run();
      EXPECT_EQ(report.error, "");
      std::uint64_t requests = 0;
      for (const StepCost& step : report.steps) requests += step.requests;
      // Join, Ready, two pushes a batch, FinishPass and Leave on both; a pull of dense values and
      // of rows a batch.
      EXPECT_EQ(requests, std::uint64_t{trainers} * 15 * (2 * (4 + 3) + 1 + 3));
    }
  }
}

// docs/scale.md: 6 frames for each trainer and pserver.
TEST(ScaleSim, FramesOfABatchGrowWithTrainersTimesPorts) {
  const auto frames = [](std::uint32_t trainers, std::uint32_t pservers) {
    const ScaleReport report =
        ScaledJob({.trainers = trainers, .pservers = pservers, .batches = 1}).run();
    std::uint64_t count = 0;
    for (const StepCost& step : report.steps) {
      if (step.name.ends_with("of a batch")) count += step.requests + step.answers;
    }
    return count;
  };
  EXPECT_EQ(frames(1, 1), 6U);
  EXPECT_EQ(frames(8, 3), 8 * 3 * 6U);
}

}  // namespace
}  // namespace paddle::sim
