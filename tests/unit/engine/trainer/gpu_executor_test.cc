#include <algorithm>
#include <stdexcept>

#include <gtest/gtest.h>

#include "base/rng.h"
#include "engine/trainer/executor.h"
#include "engine/trainer/model.h"
#include "tests/unit/engine/trainer/fake_cards.h"

namespace paddle::trainer {
namespace {

constexpr std::uint64_t kWordIds = 40;

config::DataSlotConfig slot(const std::string& name,
                            config::SlotType type = config::SlotType::kId) {
  config::DataSlotConfig made;
  made.name = name;
  made.type = type;
  return made;
}

config::LayerConfig layer(const std::string& type, const std::string& name,
                          const std::string& input, const std::string& label = "") {
  config::LayerConfig made;
  made.type = type;
  made.name = name;
  made.inputs = {input};
  made.label = label;
  return made;
}

// Classes of one cost, a click of another, and evaluators that read outputs, predictions, costs,
// and a slot.
config::JobConfig job(const std::string& device) {
  config::JobConfig job;
  job.data.format = "csv";
  job.data.columns = {"id", "label", "click", "guess"};
  job.data.slots = {slot("id"), slot("label"), slot("click"),
                    slot("guess", config::SlotType::kFloat)};
  config::LayerConfig rows = layer("embedding", "rows", "id");
  rows.size = 24;
  rows.weight.sparse = true;
  config::LayerConfig output = layer("fc", "output", "rows");
  output.size = 7;
  config::LayerConfig logit = layer("fc", "logit", "rows");
  logit.size = 1;
  job.layers = {rows, output, logit, layer("softmax_cross_entropy", "classes", "output", "label"),
                layer("binary_cross_entropy", "clicks", "logit", "click")};
  job.evaluators = {layer("classification_error", "error", "output", "label"),
                    layer("precision_recall", "precision_recall", "output", "label"),
                    layer("perplexity", "perplexity", "classes"),
                    layer("auc", "auc", "logit", "click"),
                    layer("pr_auc", "pr_auc", "logit", "click"),
                    layer("calibration", "calibration", "logit", "click"),
                    layer("gauc", "gauc", "logit", "click"),
                    layer("rmse", "rmse", "guess", "click")};
  job.evaluators[6].group = "label";
  job.train.trainer_count = 1;
  job.train.device = device == "gpu" ? config::TrainDevice::kGpu : config::TrainDevice::kCpu;
  return job;
}

Model build(const config::JobConfig& job, const Machine& machine = {}) {
  auto built = Model::build(job, machine);
  if (!built) throw std::runtime_error(built.error().message);
  return *std::move(built);
}

nn::Batch batch(std::size_t size, std::uint64_t seed) {
  nn::Batch batch{size, std::vector<nn::Slot>(4)};
  Rng rng(seed);
  for (std::size_t i = 0; i < size; ++i) {
    batch.slots[0].ids.push_back(rng.below(kWordIds));
    batch.slots[1].ids.push_back(rng.below(7));
    batch.slots[2].ids.push_back(rng.below(2));
    batch.slots[3].values.push_back(static_cast<float>(rng.normal()));
  }
  return batch;
}

Score step(Model& model, const nn::Batch& examples, nn::Mode mode, std::uint64_t seed) {
  EXPECT_TRUE(model.prepare(examples, seed));
  Rng rng(5);
  for (client::DenseParameter& one : model.dense()) {
    for (float& value : one.value) value = static_cast<float>(rng.normal());
  }
  for (client::SparseRows& one : model.rows()) {
    for (float& value : one.values) value = static_cast<float>(rng.normal());
  }
  auto score = mode == nn::Mode::kTrain ? model.train(examples, seed) : model.test(examples, seed);
  EXPECT_TRUE(score) << score.error().message;
  return *score;
}

void expect_same_values(std::span<const float> found, std::span<const float> right) {
  ASSERT_EQ(found.size(), right.size());
  for (std::size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], right[i], 1e-6) << i;
}

TEST(GpuExecutor, ScoresAndGradientsAreThoseOfCpus) {
  const FakeCards cards(1);
  Model cpu = build(job("cpu"));
  Model gpu = build(job("gpu"));
  EXPECT_EQ(gpu.computes_on(), "GPU 0 (Fake)");
  EXPECT_EQ(cpu.computes_on(), "1 thread");
  std::uint64_t seed = 0;
  for (const std::size_t size : {32UL, 32UL, 7UL, 101UL, 1UL, 32UL}) {
    const nn::Mode mode = size == 7 ? nn::Mode::kTest : nn::Mode::kTrain;
    const nn::Batch examples = batch(size, ++seed);
    const Score right = step(cpu, examples, mode, seed);
    const Score found = step(gpu, examples, mode, seed);
    EXPECT_EQ(found.samples, size);
    EXPECT_NEAR(found.cost, right.cost, 1e-6 * right.cost);
    EXPECT_EQ(found.tally.counts, right.tally.counts);
    ASSERT_EQ(found.tally.sums.size(), right.tally.sums.size());
    for (std::size_t i = 0; i < right.tally.sums.size(); ++i) {
      EXPECT_NEAR(found.tally.sums[i], right.tally.sums[i], 1e-6 * right.tally.sums[i]);
    }
    if (mode == nn::Mode::kTest) continue;
    for (std::size_t i = 0; i < cpu.dense().size(); ++i) {
      expect_same_values(gpu.dense()[i].gradient, cpu.dense()[i].gradient);
    }
    expect_same_values(gpu.rows()[0].gradients, cpu.rows()[0].gradients);
  }
}

TEST(GpuExecutor, BringsOnlyTheResultsDownThatAreRead) {
  FakeCards cards(1);
  test::FakeDevice* device = nullptr;
  cards.driver.on_open([&](test::FakeDevice& opened) { device = &opened; });
  Model gpu = build(job("gpu"));
  const nn::Batch examples = batch(32, 1);
  step(gpu, examples, nn::Mode::kTrain, 1);
  step(gpu, examples, nn::Mode::kTrain, 1);
  const auto before = device->counts();
  step(gpu, examples, nn::Mode::kTrain, 1);
  // Costs and predictions with all gradients, and the outputs of two layers.
  EXPECT_EQ(device->counts().downloads - before.downloads, 3U);
  EXPECT_EQ(device->counts().uploads - before.uploads, 1U);
}

TEST(GpuExecutor, Bfloat16IsNoMatterOfTheCpu) {
  const FakeCards cards(1);
  config::JobConfig bf16 = job("gpu");
  bf16.train.compute = kernels::Compute::kBfloat16;
  kernels::use_kernel(kernels::Compute::kBfloat16, kernels::Kernel::kFloat32);
  Model gpu = build(bf16);
  const Score right = step(gpu, batch(32, 1), nn::Mode::kTrain, 1);
  Model cpu = build(job("cpu"));
  const Score exact = step(cpu, batch(32, 1), nn::Mode::kTrain, 1);
  EXPECT_NE(right.cost, exact.cost);
  EXPECT_NEAR(right.cost, exact.cost, 0.02 * exact.cost);
}

TEST(GpuExecutor, ABatchThatDoesNotFitIsToldWithItsSizeAndAWayOut) {
  const FakeCards cards(1, 64U << 10U);
  Model gpu = build(job("gpu"));
  const nn::Batch examples = batch(4096, 1);
  const auto expect_refused = [](const Result<Score>& refused, const std::string& way_out) {
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Errc::kResource);
    EXPECT_NE(refused.error().message.find("4096 examples"), std::string::npos)
        << refused.error().message;
    EXPECT_NE(refused.error().message.find("0 (Fake) has"), std::string::npos)
        << refused.error().message;
    EXPECT_NE(refused.error().hint.find(way_out), std::string::npos) << refused.error().hint;
  };
  ASSERT_TRUE(gpu.prepare(examples, 1));
  expect_refused(gpu.train(examples, 1), "lower train.batch_size");
  expect_refused(gpu.test(examples, 1), "more memory");
}

TEST(GpuExecutor, ABrokenCardEndsTheStepWithItsName) {
  FakeCards cards(2);
  test::FakeDevice* device = nullptr;
  cards.driver.on_open([&](test::FakeDevice& opened) { device = &opened; });
  Model gpu = build(job("gpu"), {.selected_gpus = "1"});
  const nn::Batch examples = batch(8, 1);
  step(gpu, examples, nn::Mode::kTrain, 1);
  device->fail_order(3);
  const auto failed = gpu.train(examples, 1);
  ASSERT_FALSE(failed);
  EXPECT_NE(failed.error().message.find("1 (Fake)"), std::string::npos);
}

}  // namespace
}  // namespace paddle::trainer
