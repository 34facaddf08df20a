#include "engine/trainer/model.h"

#include <cmath>
#include <span>

#include <gtest/gtest.h>

#include "base/rng.h"
#include "tests/unit/engine/math/use_bfloat16.h"
#include "tests/unit/engine/trainer/fake_cards.h"

namespace paddle::trainer {
namespace {

constexpr std::size_t kFloats = 24;
constexpr std::size_t kClasses = 7;
constexpr std::uint64_t kIds = 40;

config::JobConfig job(std::uint32_t threads) {
  config::JobConfig job;
  job.data.format = "csv";
  job.data.columns = {"id", "label"};
  for (const char* name : {"id", "label"}) {
    config::DataSlotConfig slot;
    slot.name = name;
    job.data.slots.push_back(slot);
  }
  config::LayerConfig rows;
  rows.name = "rows";
  rows.type = "embedding";
  rows.inputs = {"id"};
  rows.size = kFloats;
  rows.weight.sparse = true;
  config::LayerConfig output;
  output.name = "output";
  output.type = "fc";
  output.inputs = {"rows"};
  output.size = kClasses;
  output.has_bias = true;
  config::LayerConfig cost;
  cost.name = "cost";
  cost.type = "softmax_cross_entropy";
  cost.inputs = {"output"};
  cost.label = "label";
  job.layers = {rows, output, cost};
  job.train.trainer_count = threads;
  return job;
}

nn::Batch batch(std::size_t size) {
  nn::Batch batch{size, std::vector<nn::Slot>(2)};
  Rng rng(3);
  for (std::size_t i = 0; i < size; ++i) {
    batch.slots[0].ids.push_back(rng.below(kIds));
    batch.slots[1].ids.push_back(rng.below(kClasses));
  }
  return batch;
}

// Shows, clicks and slots of a table that two slots share.
TEST(BatchNotes, CountWhatExamplesNameAndClickOn) {
  config::JobConfig two = job(1);
  two.data.columns.push_back("other");
  two.data.slots.push_back(two.data.slots[0]);
  two.data.slots.back().name = "other";
  config::LayerConfig& rows = two.layers[0];
  rows.inputs.push_back("other");
  rows.padding_id = 9;
  rows.weight.table.mutable_shrink()->set_label("label");
  rows.weight.table.add_entry()->set_slot("other");
  auto model = Model::build(two);
  ASSERT_TRUE(model) << model.error().message;
  const nn::Batch batch{3, {{{5, 5, 9}}, {{1, 0, 1}}, {{7, 5, 7}}}};
  ASSERT_TRUE(model->prepare(batch, 1));
  for (client::DenseParameter& one : model->dense()) one.value.assign(one.value.size(), 0);
  ASSERT_TRUE(model->train(batch, 1));
  const client::SparseRows& table = model->rows()[0];
  EXPECT_EQ(table.ids, (std::vector<std::uint64_t>{5, 7}));
  EXPECT_EQ(table.notes, (std::vector<float>{3, 1, 0, 2, 2, 1}));

  const auto mistake = [&](auto&& change) {
    config::JobConfig wrong = two;
    change(wrong.layers[0].weight.table);
    const auto built = Model::build(wrong);
    return built ? std::string() : built.error().message;
  };
  EXPECT_NE(mistake([](auto& policy) {
              policy.mutable_entry(0)->set_slot("label");
            }).find("does not read"),
            std::string::npos);
  EXPECT_NE(mistake([](auto& policy) {
              policy.mutable_shrink()->set_label("none");
            }).find("is not a slot"),
            std::string::npos);
}

TEST(Model, WeightsOfExamplesNeedACpu) {
  const FakeCards cards(1);
  config::JobConfig weighted = job(1);
  weighted.data.slots.push_back({.name = "times", .type = config::SlotType::kFloat});
  weighted.train.device = config::TrainDevice::kGpu;
  EXPECT_TRUE(Model::build(weighted)) << "a card that computes without weights";
  weighted.data.weight = "times";
  const auto refused = Model::build(weighted);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::kUsage);
  EXPECT_EQ(refused.error().message,
            "[data] weight needs a CPU, but this trainer computes on a GPU");
  EXPECT_EQ(refused.error().hint, "set [train] device = \"cpu\", or remove [data] weight");
  weighted.train.device = config::TrainDevice::kCpu;
  EXPECT_TRUE(Model::build(weighted));
}

// One step from the same values, whatever the threads.
struct Step {
  Step(std::uint32_t threads, std::size_t size) : Step(job(threads), size) {}
  Step(const config::JobConfig& job, std::size_t size) : model(*Model::build(job)) {
    Rng rng(5);
    const nn::Batch examples = batch(size);
    EXPECT_TRUE(model.prepare(examples, 1));
    for (client::DenseParameter& one : model.dense()) {
      for (float& value : one.value) value = static_cast<float>(rng.normal());
    }
    for (client::SparseRows& one : model.rows()) {
      for (float& value : one.values) value = static_cast<float>(rng.normal());
    }
    score = *model.train(examples, 1);
  }
  Model model;
  Score score;
};

void expect_near(std::span<const float> a, std::span<const float> b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], 1e-6) << i;
}

TEST(Model, ThreadsShareABatchAndTheirGradientsAddUp) {
  for (const std::size_t size : {std::size_t{2}, std::size_t{101}}) {
    Step one(1, size);
    double largest = 0;
    for (const float value : one.model.dense()[0].gradient) {
      largest = std::max(largest, std::fabs(static_cast<double>(value)));
    }
    EXPECT_GT(largest, 1e-3);
    for (const std::uint32_t threads : {2U, 3U, 5U}) {
      Step many(threads, size);
      EXPECT_NEAR(many.score.cost, one.score.cost, 1e-9 * one.score.cost);
      EXPECT_EQ(many.score.samples, size);
      for (std::size_t i = 0; i < one.model.dense().size(); ++i) {
        expect_near(many.model.dense()[i].gradient, one.model.dense()[i].gradient);
      }
      expect_near(many.model.rows()[0].gradients, one.model.rows()[0].gradients);
    }
  }
}

// fluid.md trap 13: the cost of a score is a sum, a gradient is the mean over its batch, whatever
// the batch's size; a learning rate means the same for every batch size. Only merge = "sum" adds.
TEST(Model, Trap13GradientsAreMeansAndCostsAreSums) {
  Step once(1, 20);
  Step twice(1, 20);
  nn::Batch doubled = batch(20);
  doubled.size *= 2;
  for (nn::Slot& slot : doubled.slots) {
    const std::vector<std::uint64_t> ids = slot.ids;
    slot.ids.insert(slot.ids.end(), ids.begin(), ids.end());
  }
  ASSERT_TRUE(twice.model.prepare(doubled, 1));
  for (std::size_t i = 0; i < twice.model.dense().size(); ++i) {
    twice.model.dense()[i].value = once.model.dense()[i].value;
  }
  twice.model.rows()[0].values = once.model.rows()[0].values;
  const Score score = *twice.model.train(doubled, 1);
  EXPECT_EQ(score.samples, 2 * once.score.samples);
  EXPECT_NEAR(score.cost, 2 * once.score.cost, 1e-6 * once.score.cost);
  for (std::size_t i = 0; i < twice.model.dense().size(); ++i) {
    expect_near(twice.model.dense()[i].gradient, once.model.dense()[i].gradient);
  }
  expect_near(twice.model.rows()[0].gradients, once.model.rows()[0].gradients);
  EXPECT_NEAR(twice.model.read(score).cost, once.model.read(once.score).cost, 1e-6);
}

TEST(Model, TheSameThreadsGiveTheSameBits) {
  Step first(3, 101);
  Step second(3, 101);
  EXPECT_EQ(first.model.dense()[0].gradient, second.model.dense()[0].gradient);
  EXPECT_EQ(first.model.rows()[0].gradients, second.model.rows()[0].gradients);
}

TEST(Model, SaysInWhichPrecisionItComputesAJobOfLess) {
  config::JobConfig bf16 = job(1);
  bf16.train.compute = kernels::Compute::kBfloat16;
  EXPECT_EQ(Model::build(job(1))->computes_on(), "1 thread");
  kernels::use_kernel(kernels::Compute::kBfloat16, kernels::Kernel::kFloat32);
  EXPECT_EQ(Model::build(bf16)->computes_on(),
            "1 thread, products in float32: no less is faster on this CPU");
  if (!kernels::use_bfloat16()) GTEST_SKIP() << "the CPU has no AVX512-BF16";
  EXPECT_TRUE(Model::build(bf16)->computes_on().starts_with("1 thread, products in bfloat16 by"));
}

TEST(Model, Bfloat16IsNearFloat32) {
  if (!kernels::use_bfloat16()) GTEST_SKIP() << "the CPU has no AVX512-BF16";
  config::JobConfig wide = job(1);
  wide.layers[1].size = 64;  // wide enough for bfloat16
  Step exact(wide, 101);
  wide.train.compute = kernels::Compute::kBfloat16;
  Step rounded(wide, 101);
  EXPECT_NE(exact.score.cost, rounded.score.cost);
  EXPECT_NEAR(rounded.score.cost, exact.score.cost, 0.01 * exact.score.cost);
  const auto distance = [](std::span<const float> a, std::span<const float> b) {
    double apart = 0;
    double length = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
      apart += std::pow(static_cast<double>(a[i]) - static_cast<double>(b[i]), 2);
      length += std::pow(static_cast<double>(b[i]), 2);
    }
    return std::sqrt(apart / length);
  };
  for (std::size_t i = 0; i < exact.model.dense().size(); ++i) {
    EXPECT_LT(distance(rounded.model.dense()[i].gradient, exact.model.dense()[i].gradient), 0.03);
  }
  EXPECT_LT(distance(rounded.model.rows()[0].gradients, exact.model.rows()[0].gradients), 0.03);
}

// Plain gradient descent on one batch; the mean cost of each step.
std::vector<double> cost_curve(kernels::Compute compute) {
  constexpr std::size_t kSteps = 60;
  constexpr float kRate = 0.5F;
  config::JobConfig learner = job(1);
  learner.layers[1].size = 64;
  learner.layers[1].activation = "tanh";
  config::LayerConfig output = job(1).layers[1];
  output.name = "classes";
  output.inputs = {"output"};
  output.size = 40;
  learner.layers.insert(learner.layers.begin() + 2, output);
  learner.layers[3].inputs = {"classes"};
  learner.train.compute = compute;
  Model model = *Model::build(learner);
  const nn::Batch examples = batch(200);
  EXPECT_TRUE(model.prepare(examples, 1));
  Rng rng(5);
  for (client::DenseParameter& one : model.dense()) {
    for (float& value : one.value) value = static_cast<float>(0.1 * rng.normal());
  }
  for (float& value : model.rows()[0].values) value = static_cast<float>(rng.normal());
  std::vector<double> curve;
  for (std::size_t step = 0; step < kSteps; ++step) {
    curve.push_back(model.train(examples, step)->cost / 200);
    for (client::DenseParameter& one : model.dense()) {
      for (std::size_t i = 0; i < one.value.size(); ++i) one.value[i] -= kRate * one.gradient[i];
    }
  }
  return curve;
}

TEST(Model, Bfloat16LearnsAsFloat32Does) {
  if (!kernels::use_bfloat16()) GTEST_SKIP() << "the CPU has no AVX512-BF16";
  const std::vector<double> exact = cost_curve(kernels::Compute::kFloat32);
  const std::vector<double> rounded = cost_curve(kernels::Compute::kBfloat16);
  EXPECT_LT(exact.back(), 0.6 * exact.front());
  EXPECT_NE(exact, rounded);
  for (std::size_t i = 0; i < exact.size(); ++i) {
    EXPECT_NEAR(rounded[i], exact[i], 0.01 * exact[i]) << i;
  }
}

TEST(Model, Bf16x3LearnsAsFloat32DoesToFourDigits) {
  if (!kernels::has_kernel(kernels::Kernel::kBfloat16x3Tiles)) {
    GTEST_SKIP() << "the CPU has no AMX-BF16";
  }
  kernels::use_kernel(kernels::Compute::kBfloat16x3, kernels::Kernel::kBfloat16x3Tiles);
  const std::vector<double> exact = cost_curve(kernels::Compute::kFloat32);
  const std::vector<double> parts = cost_curve(kernels::Compute::kBfloat16x3);
  EXPECT_NE(exact, parts);
  for (std::size_t i = 0; i < exact.size(); ++i) {
    EXPECT_NEAR(parts[i], exact[i], 1e-4 * exact[i]) << i;
  }
}

}  // namespace
}  // namespace paddle::trainer
