#include "tests/unit/engine/nn/equal_plan.h"

#include <bit>
#include <cmath>
#include <span>

#include <gtest/gtest.h>

#include "tests/support/device/host_interpreter.h"

namespace paddle::nn {
namespace {

std::vector<std::uint32_t> bits_of(std::span<const float> values) {
  std::vector<std::uint32_t> bits;
  for (const float value : values) bits.push_back(std::bit_cast<std::uint32_t>(value));
  return bits;
}

class Comparison {
 public:
  Comparison(TestNetwork& test, const Plan& plan) : test_(test), plan_(plan), host_(plan) {}

  void run(const Run& run) {
    test_.workspace.clear_gradients();
    const double cost = test_.network.forward(run, test_.workspace).value();
    EXPECT_FALSE(std::isnan(cost));
    EXPECT_EQ(host_.forward(run).value(), cost);
    compare_costs();
    compare_outputs(run.rows());
    if (run.mode == Mode::kTest) return;
    test_.network.backward(run, test_.workspace);
    host_.backward();
    for (std::size_t p = 0; p < test_.values.size(); ++p) {
      EXPECT_EQ(bits_of(host_.parameter_gradient(p)), bits_of(test_.workspace.gradient(p)))
          << "gradient of " << test_.network.parameters()[p].name();
    }
  }

 private:
  void compare_costs() {
    LayerAccess layers(test_.workspace);
    for (std::size_t i = 0; i < plan_.costs.size(); ++i) {
      EXPECT_EQ(host_.cost(i), layers.cost(plan_.costs[i])) << "cost " << i;
    }
    for (std::size_t i = 0; i < plan_.predictions.size(); ++i) {
      const auto predictions = host_.predictions(i);
      EXPECT_EQ(std::vector(predictions.begin(), predictions.end()),
                layers.predictions(plan_.predictions[i]));
    }
  }

  void compare_outputs(std::size_t rows) {
    LayerAccess layers(test_.workspace);
    for (std::size_t layer = 0; layer < plan_.outputs.size(); ++layer) {
      if (!plan_.outputs[layer]) continue;
      const Region& region = *plan_.outputs[layer];
      const std::size_t count = rows * plan_.buffers[region.buffer].width;
      EXPECT_EQ(bits_of({host_.output(layer), count}), bits_of({layers.output(layer), count}))
          << "output of layer " << layer;
    }
  }

  TestNetwork& test_;
  const Plan& plan_;
  HostInterpreter host_;
};

}  // namespace

void expect_equal_plan(TestNetwork& test, const Batch& batch, std::uint64_t seed) {
  const Plan plan = test.network.lower();
  Comparison comparison(test, plan);
  const Parameters parameters = test.views(batch, seed);
  for (const Mode mode : {Mode::kTrain, Mode::kTest}) {
    for (const std::size_t begin : {std::size_t{0}, batch.size / 3}) {
      comparison.run({.batch = batch,
                      .begin = begin,
                      .end = batch.size,
                      .parameters = parameters,
                      .mode = mode,
                      .seed = seed,
                      .cost_scale = 1.0F / static_cast<float>(batch.size),
                      .compute = test.compute});
    }
  }
}

}  // namespace paddle::nn
