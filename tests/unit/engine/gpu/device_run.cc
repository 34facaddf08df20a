#include "tests/unit/engine/gpu/device_run.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include <gtest/gtest.h>

#include "tests/unit/engine/gpu/device_fixture.h"

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

// The number of an id's row in a table on the card.
std::uint32_t number_of(std::uint64_t id) {
  return static_cast<std::uint32_t>((3 * id + 2) % kTestVocabulary);
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
      used_(device_),
      executor_(*DeviceExecutor::make(plan_, device_, all_of(plan_))) {}

DeviceRun::DeviceRun(TestNetwork& test, device::Device& device)
    : test_(test),
      plan_(test.network.lower()),
      host_(plan_),
      used_(device),
      executor_(*DeviceExecutor::make(plan_, device, all_of(plan_))) {}

void DeviceRun::move(std::span<float> host, float* card, bool is_down) {
  device::PinnedMemory<float> room(used_);
  ASSERT_TRUE(room.reserve(host.size()));
  const auto stream = *device::Stream::open(used_);
  const auto done = *device::Event::make(used_);
  auto* const there = reinterpret_cast<std::byte*>(card);
  auto* const here = reinterpret_cast<std::byte*>(room.data());
  if (is_down) {
    used_.download(stream.handle(), there, here, host.size_bytes());
  } else {
    std::ranges::copy(host, room.data());
    used_.upload(stream.handle(), here, there, host.size_bytes());
  }
  used_.record(stream.handle(), done.handle());
  ASSERT_TRUE(used_.wait(done.handle(), SteadyClock().now() + std::chrono::seconds(10)));
  if (is_down) std::copy_n(room.data(), host.size(), host.begin());
}

void DeviceRun::keep_on_card(bool early) {
  if (early) beside_ = *device::Stream::open(used_);
  for (std::size_t p = 0; p < test_.values.size(); ++p) {
    std::vector<float>& values = test_.values[p];
    const wire::ParameterSpec& spec = test_.network.parameters()[p];
    if (spec.sparse()) {
      const std::size_t width = spec.dims(1);
      auto& table =
          kept_tables_.emplace(p, KeptTable{device::CardMemory<float>(used_), {}}).first->second;
      std::vector<float> moved(values.size());
      for (std::size_t id = 0; id < kTestVocabulary; ++id) {
        std::copy_n(values.data() + id * width, width, moved.data() + number_of(id) * width);
      }
      table.rows.rows_max = std::bit_ceil(kTestVocabulary);
      ASSERT_TRUE(table.memory.reserve(moved.size() + table.rows.rows_max * width));
      table.rows.place = {table.memory.data(), table.memory.data() + moved.size()};
      move(moved, table.memory.data(), false);
      continue;
    }
    auto& kept = kept_
                     .emplace(p, KeptDense{device::CardMemory<float>(used_),
                                           device::PinnedMemory<float>(used_), std::nullopt})
                     .first->second;
    ASSERT_TRUE(kept.memory.reserve(2 * values.size()));
    move(values, kept.memory.data(), false);
    if (!early) continue;
    kept.written = *device::Event::make(used_);
    ASSERT_TRUE(kept.room.reserve(values.size()));
  }
}

void DeviceRun::read_early() {
  for (const auto& [p, kept] : kept_) {
    if (!kept.written) continue;
    const std::size_t count = test_.values[p].size();
    used_.wait_for(beside_->handle(), kept.written->handle());
    used_.download(beside_->handle(),
                   reinterpret_cast<const std::byte*>(kept.memory.data() + count),
                   reinterpret_cast<std::byte*>(kept.room.data()), count * sizeof(float));
  }
}

Parameters DeviceRun::parameters_of(const Batch& batch, std::uint64_t seed) {
  Parameters parameters = test_.views(batch, seed);
  for (const auto& [p, kept] : kept_) {
    parameters.card.resize(std::max(parameters.card.size(), p + 1));
    float* const values = kept.memory.data();
    parameters.card[p] = {values, values + test_.values[p].size(),
                          kept.written ? kept.written->handle().value : nullptr};
    parameters.dense[p] = {};
  }
  for (auto& [p, table] : kept_tables_) {
    table.rows.numbers.clear();
    for (const std::uint64_t id : parameters.sparse[p].ids) {
      table.rows.numbers.push_back(number_of(id));
    }
    parameters.sparse[p].values = {};
    parameters.sparse[p].card = &table.rows;
  }
  return parameters;
}

void DeviceRun::stage(const Batch& batch, std::uint64_t seed, bool has_values) {
  const Parameters parameters = parameters_of(batch, seed);
  ASSERT_TRUE(executor_->stage(whole(batch, parameters, Mode::kTrain, seed), has_values));
}

Result<RunResults> DeviceRun::on_card(const Batch& batch, Mode mode, std::uint64_t seed,
                                      kernels::Compute compute) {
  const Parameters parameters = parameters_of(batch, seed);
  std::vector<std::size_t> sizes;
  for (std::size_t p = 0; p < test_.values.size(); ++p) {
    const wire::ParameterSpec& spec = test_.network.parameters()[p];
    sizes.push_back(spec.sparse() ? parameters.sparse[p].ids.size() * spec.dims(1)
                                  : test_.values[p].size());
  }
  nn::Run run = whole(batch, parameters, mode, seed);
  run.compute = compute;
  RunResults results;
  std::vector<std::span<float>> gradients;
  if (mode == Mode::kTrain) {
    for (const std::size_t size : sizes) results.gradients.emplace_back(size);
    gradients.assign(results.gradients.begin(), results.gradients.end());
    for (const auto& [p, kept] : kept_) gradients[p] = {};
    for (const auto& [p, table] : kept_tables_) gradients[p] = {};
  }
  PADDLE_TRY_STATUS(executor_->begin(run));
  const bool is_early = beside_ && mode == Mode::kTrain;
  if (is_early) read_early();
  if (meanwhile) meanwhile();
  PADDLE_TRY(results.cost, executor_->finish(gradients));
  if (is_early) PADDLE_TRY_STATUS(device::finish(used_, *beside_));
  for (const auto& [p, kept] : kept_) {
    if (mode != Mode::kTrain) continue;
    if (is_early) {
      std::copy_n(kept.room.data(), sizes[p], results.gradients[p].begin());
    } else {
      move(results.gradients[p], kept.memory.data() + sizes[p], true);
    }
  }
  for (const auto& [p, table] : kept_tables_) {
    if (mode == Mode::kTrain) move(results.gradients[p], table.rows.place.gradient, true);
  }
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
