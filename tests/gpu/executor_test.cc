// Networks on a card beside the interpreter of the host.
#include <gtest/gtest.h>

#include "tests/gpu/card.h"
#include "tests/unit/engine/gpu/device_run.h"
#include "tests/unit/engine/nn/random_network.h"
#include "tests/unit/engine/nn/template_networks.h"

namespace paddle::nn {
namespace {

constexpr std::uint64_t kNetworks = 30;
constexpr double kNear = 1e-4;
constexpr double kNearInBfloat16 = 2e-2;

// The first run of a shape gives the card its commands one by one, the second captures them, and
// the third has them already.
void expect_run_near(DeviceRun& run, const Batch& batch, Mode mode, std::uint64_t seed) {
  const auto found = run.on_card(batch, mode, seed);
  ASSERT_TRUE(found) << found.error().message;
  expect_near(*found, run.on_host(batch, mode, seed), kNear);
  for (const char* const how : {"captured", "replayed"}) {
    const auto again = run.on_card(batch, mode, seed);
    ASSERT_TRUE(again) << again.error().message;
    EXPECT_TRUE(*again == *found) << "other bits when " << how;
  }
}

TEST(ExecutorOnCard, RunsEveryTypeOfLayerOnBatchesOfUnlikeSize) {
  for (std::uint64_t seed = 0; seed < kNetworks; ++seed) {
    SCOPED_TRACE(seed);
    TestNetwork test(random_layers(seed), kRandomSlots, seed);
    DeviceRun run(test, test::card());
    for (std::uint64_t i = 0; i < 4; ++i) {
      const Mode mode = i == 3 ? Mode::kTest : Mode::kTrain;
      expect_run_near(run, random_batch(10 * seed + i), mode, i);
    }
    if (testing::Test::HasFailure()) return;
  }
}

// Batches are sent early, and gradients read early, as by a trainer in a group: graphs end at each
// gradient.
TEST(ExecutorOnCard, ReadsAndWritesParametersThatTheCardKeeps) {
  for (const TemplateNetwork& one : template_networks()) {
    SCOPED_TRACE(one.path);
    TestNetwork test(one.job.layers, one.slots);
    DeviceRun run(test, test::card());
    run.keep_on_card(true);
    run.meanwhile = [&] { run.stage(one.batch, 1, true); };
    for (int i = 0; i < 3; ++i) expect_run_near(run, one.batch, Mode::kTrain, 1);
    expect_run_near(run, one.batch, Mode::kTest, 2);
  }
}

TEST(ExecutorOnCard, RunsEveryTemplate) {
  for (const TemplateNetwork& one : template_networks()) {
    SCOPED_TRACE(one.path);
    TestNetwork test(one.job.layers, one.slots);
    DeviceRun run(test, test::card());
    expect_run_near(run, one.batch, Mode::kTrain, 1);
    expect_run_near(run, one.batch, Mode::kTest, 2);
    const auto found = run.on_card(one.batch, Mode::kTest, 2, kernels::Compute::kBfloat16);
    ASSERT_TRUE(found) << found.error().message;
    const double right = run.on_host(one.batch, Mode::kTest, 2).cost;
    EXPECT_NEAR(found->cost, right, kNearInBfloat16 * right);
  }
}

}  // namespace
}  // namespace paddle::nn
