#include "tests/unit/engine/nn/test_network.h"

#include <algorithm>
#include <stdexcept>

#include <gtest/gtest.h>

#include "base/rng.h"

namespace paddle::nn {

config::LayerConfig embedding(std::string name, std::vector<std::string> slots, std::uint64_t size,
                              bool sparse, std::string parameter) {
  config::LayerConfig layer;
  layer.name = std::move(name);
  layer.type = "embedding";
  layer.inputs = std::move(slots);
  layer.size = size;
  layer.vocabulary = kTestVocabulary;
  layer.weight.sparse = sparse;
  layer.weight.name = std::move(parameter);
  return layer;
}

config::LayerConfig fc(std::string name, std::vector<std::string> inputs, std::uint64_t size,
                       std::string activation) {
  config::LayerConfig layer;
  layer.name = std::move(name);
  layer.type = "fc";
  layer.inputs = std::move(inputs);
  layer.size = size;
  layer.activation = std::move(activation);
  return layer;
}

config::LayerConfig layer(std::string type, std::string name, std::vector<std::string> inputs) {
  config::LayerConfig made;
  made.name = std::move(name);
  made.type = std::move(type);
  made.inputs = std::move(inputs);
  return made;
}

config::LayerConfig concat(std::string name, std::vector<std::string> inputs) {
  return layer("concat", std::move(name), std::move(inputs));
}

config::LayerConfig dropout(std::string name, std::string input, float rate) {
  config::LayerConfig layer;
  layer.name = std::move(name);
  layer.type = "dropout";
  layer.inputs = {std::move(input)};
  layer.rate = rate;
  return layer;
}

config::LayerConfig cost(std::string name, std::string input, std::string label) {
  config::LayerConfig layer;
  layer.name = std::move(name);
  layer.type = "softmax_cross_entropy";
  layer.inputs = {std::move(input)};
  layer.label = std::move(label);
  return layer;
}

std::vector<config::SlotConfig> parse_slots(const std::vector<std::string>& slots) {
  std::vector<config::SlotConfig> parsed;
  for (const std::string& text : slots) {
    const std::size_t colon = text.find(':');
    const std::string width = colon == std::string::npos ? "0" : text.substr(colon + 1);
    parsed.push_back({text.substr(0, colon), static_cast<std::uint32_t>(std::stoul(width))});
    parsed.back().is_weight = parsed.back().name == "weight";
  }
  return parsed;
}

TestNetwork::TestNetwork(std::vector<config::LayerConfig> layer_configs,
                         std::vector<std::string> slot_names, std::uint64_t seed)
    : layers(std::move(layer_configs)), slots(std::move(slot_names)), network([&] {
        auto built = Network::build(layers, parse_slots(slots));
        if (!built) throw std::runtime_error(built.error().message);
        return *std::move(built);
      }()) {
  Rng rng(seed);
  for (const wire::ParameterSpec& spec : network.parameters()) {
    std::size_t count = 1;
    for (const std::uint64_t dim : spec.dims()) count *= dim == 0 ? kTestVocabulary : dim;
    auto& value = values.emplace_back(count);
    for (float& one : value) one = static_cast<float>(0.5 * rng.normal());
  }
  ids.resize(values.size());
}

Parameters TestNetwork::views(const Batch& batch, std::uint64_t draw_seed) {
  network.collect_ids(batch, draw_seed, ids);
  rows_.assign(values.size(), {});
  Parameters result;
  for (std::size_t p = 0; p < values.size(); ++p) {
    result.dense.emplace_back();
    result.sparse.emplace_back();
    if (!network.parameters()[p].sparse()) {
      result.dense[p] = values[p];
      continue;
    }
    const std::size_t width = network.parameters()[p].dims(1);
    for (const std::uint64_t id : ids[p]) {
      const auto from = values[p].begin() + static_cast<std::ptrdiff_t>(id * width);
      rows_[p].insert(rows_[p].end(), from, from + static_cast<std::ptrdiff_t>(width));
    }
    result.sparse[p] = {ids[p], rows_[p]};
  }
  return result;
}

double TestNetwork::run(const Batch& batch, std::size_t parts, std::uint64_t draw_seed) {
  const Parameters parameters = views(batch, draw_seed);
  workspace.clear_gradients();
  double sum = 0;
  for (std::size_t part = 0; part < parts; ++part) {
    const Run run{.batch = batch,
                  .begin = batch.size * part / parts,
                  .end = batch.size * (part + 1) / parts,
                  .parameters = parameters,
                  .mode = Mode::kTrain,
                  .seed = draw_seed,
                  .cost_scale = cost_scale,
                  .compute = compute};
    sum += network.forward(run, workspace).value();
    network.backward(run, workspace);
  }
  gradients.assign(values.size(), {});
  for (std::size_t p = 0; p < values.size(); ++p) {
    const auto gradient = workspace.gradient(p);
    if (!network.parameters()[p].sparse()) {
      gradients[p].assign(gradient.begin(), gradient.end());
      continue;
    }
    gradients[p].assign(values[p].size(), 0);
    const std::size_t width = network.parameters()[p].dims(1);
    for (std::size_t i = 0; i < ids[p].size(); ++i) {
      std::copy_n(gradient.data() + i * width, width, gradients[p].data() + ids[p][i] * width);
    }
  }
  return sum;
}

Result<double> TestNetwork::test(const Batch& batch) {
  PADDLE_TRY_STATUS(network.check(batch));
  const Parameters parameters = views(batch, 0);
  return network.forward(Run{.batch = batch,
                             .begin = 0,
                             .end = batch.size,
                             .parameters = parameters,
                             .mode = Mode::kTest},
                         workspace);
}

void TestNetwork::step(float rate) {
  for (std::size_t p = 0; p < values.size(); ++p) {
    for (std::size_t i = 0; i < values[p].size(); ++i) values[p][i] -= rate * gradients[p][i];
  }
}

config::LayerConfig labelled(std::string type, std::string name, std::string input,
                             std::string label) {
  config::LayerConfig made = layer(std::move(type), std::move(name), {std::move(input)});
  made.label = std::move(label);
  return made;
}

void expect_data_error(TestNetwork& test, const Batch& batch, const std::string& message) {
  const auto result = test.test(batch);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, Errc::kData);
  EXPECT_EQ(result.error().message, message);
}

}  // namespace paddle::nn
