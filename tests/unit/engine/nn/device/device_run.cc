#include "tests/unit/engine/nn/device/device_run.h"

#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

namespace paddle::nn {
namespace {

WantedResults all_of(const Plan& plan) {
  WantedResults all;
  for (std::size_t layer = 0; layer < plan.outputs.size(); ++layer) {
    if (plan.outputs[layer]) all.outputs.push_back(layer);
  }
  for (std::size_t i = 0; i < plan.predictions.size(); ++i) all.predictions.push_back(i);
  return all;
}

nn::Run whole(const Batch& batch, const Parameters& parameters, Mode mode, std::uint64_t seed) {
  return {.batch = batch,
          .begin = 0,
          .end = batch.size,
          .parameters = parameters,
          .mode = mode,
          .seed = seed,
          .cost_scale = 1.0F / static_cast<float>(batch.size)};
}

template <class T>
std::vector<T> copy_of(std::span<const T> values) {
  return {values.begin(), values.end()};
}

double largest(std::span<const float> values) {
  double most = 0;
  for (const float value : values) most = std::max(most, std::fabs(static_cast<double>(value)));
  return most;
}

void expect_near(std::span<const float> found, std::span<const float> right, double bound,
                 const std::string& name) {
  ASSERT_EQ(found.size(), right.size()) << name;
  for (std::size_t i = 0; i < found.size(); ++i) {
    ASSERT_NEAR(found[i], right[i], bound) << name << ", value " << i;
  }
}

}  // namespace

DeviceRun::DeviceRun(TestNetwork& test, std::uint64_t seed)
    : test_(test),
      plan_(test.network.lower()),
      host_(plan_),
      device_({.seed = seed}),
      executor_(*DeviceExecutor::make(plan_, device_, all_of(plan_))) {}

DeviceRun::DeviceRun(TestNetwork& test, device::Device& device)
    : test_(test),
      plan_(test.network.lower()),
      host_(plan_),
      executor_(*DeviceExecutor::make(plan_, device, all_of(plan_))) {}

Result<RunResults> DeviceRun::on_card(const Batch& batch, Mode mode, std::uint64_t seed,
                                      kernels::Compute compute) {
  const Parameters parameters = test_.views(batch, seed);
  nn::Run run = whole(batch, parameters, mode, seed);
  run.compute = compute;
  RunResults results;
  std::vector<std::span<float>> gradients;
  if (mode == Mode::kTrain) {
    for (std::size_t p = 0; p < test_.values.size(); ++p) {
      const std::size_t dense = parameters.dense[p].size();
      results.gradients.emplace_back(dense > 0 ? dense : parameters.sparse[p].values.size());
    }
    gradients.assign(results.gradients.begin(), results.gradients.end());
  }
  PADDLE_TRY(results.cost, executor_->run(run, gradients));
  for (std::size_t layer = 0; layer < plan_.outputs.size(); ++layer) {
    auto& output = results.outputs.emplace_back();
    if (plan_.outputs[layer]) output = copy_of(executor_->output(layer));
  }
  for (std::size_t i = 0; i < plan_.predictions.size(); ++i) {
    results.predictions.push_back(copy_of(executor_->predictions(i)));
  }
  return results;
}

RunResults DeviceRun::on_host(const Batch& batch, Mode mode, std::uint64_t seed) {
  const Parameters parameters = test_.views(batch, seed);
  const nn::Run run = whole(batch, parameters, mode, seed);
  RunResults results;
  results.cost = host_.forward(run).value();
  for (std::size_t layer = 0; layer < plan_.outputs.size(); ++layer) {
    auto& output = results.outputs.emplace_back();
    if (!plan_.outputs[layer]) continue;
    const std::size_t width = plan_.buffers[plan_.outputs[layer]->buffer].width;
    output = copy_of(std::span(host_.output(layer), batch.size * width));
  }
  for (std::size_t i = 0; i < plan_.predictions.size(); ++i) {
    results.predictions.push_back(copy_of(host_.predictions(i)));
  }
  if (mode == Mode::kTest) return results;
  host_.backward();
  for (std::size_t p = 0; p < test_.values.size(); ++p) {
    results.gradients.push_back(copy_of(host_.parameter_gradient(p)));
  }
  return results;
}

void expect_near(const RunResults& found, const RunResults& right, double relative) {
  EXPECT_NEAR(found.cost, right.cost, relative * std::fabs(right.cost));
  for (std::size_t layer = 0; layer < right.outputs.size(); ++layer) {
    expect_near(found.outputs[layer], right.outputs[layer],
                relative * largest(right.outputs[layer]),
                "outputs of layer " + std::to_string(layer));
  }
  ASSERT_EQ(found.gradients.size(), right.gradients.size());
  double of_all = 0;
  for (const auto& gradient : right.gradients) of_all = std::max(of_all, largest(gradient));
  for (std::size_t p = 0; p < right.gradients.size(); ++p) {
    const double of_own = largest(right.gradients[p]);
    expect_near(found.gradients[p], right.gradients[p], 5 * relative * (of_own + of_all / 10),
                "gradient of parameter " + std::to_string(p));
  }
}

}  // namespace paddle::nn
