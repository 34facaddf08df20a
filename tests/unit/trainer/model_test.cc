#include "engine/trainer/model.h"

#include <cmath>

#include <gtest/gtest.h>

#include "engine/base/rng.h"

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

// One step from the same values, whatever the threads.
struct Step {
  explicit Step(std::uint32_t threads, std::size_t size) : model(*Model::build(job(threads))) {
    Rng rng(5);
    const nn::Batch examples = batch(size);
    EXPECT_TRUE(model.prepare(examples, 1));
    for (DenseParameter& one : model.dense()) {
      for (float& value : one.value) value = static_cast<float>(rng.normal());
    }
    for (SparseRows& one : model.rows()) {
      for (float& value : one.values) value = static_cast<float>(rng.normal());
    }
    score = *model.train(examples, 1);
  }
  Model model;
  Score score;
};

void expect_near(const std::vector<float>& a, const std::vector<float>& b) {
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

TEST(Model, TheSameThreadsGiveTheSameBits) {
  Step first(3, 101);
  Step second(3, 101);
  EXPECT_EQ(first.model.dense()[0].gradient, second.model.dense()[0].gradient);
  EXPECT_EQ(first.model.rows()[0].gradients, second.model.rows()[0].gradients);
}

}  // namespace
}  // namespace paddle::trainer
