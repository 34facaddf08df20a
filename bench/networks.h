// The networks that benchmarks train, with random values and batches.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "engine/config/job_config.h"
#include "engine/nn/network.h"

namespace paddle::bench {

constexpr std::size_t kVocabulary = 2073;  // word2vec's
constexpr std::size_t kCtrIds =
    20000;  // distinct ids in batches: their table does not fit the caches

struct Subject {
  std::string name;
  std::vector<config::SlotConfig> slots;  // the label is the last
  std::vector<config::LayerConfig> layers;
  std::vector<std::array<std::size_t, 2>> products;  // input and output width of each fc
  std::size_t ids = 0;                               // number of distinct ids
  std::size_t classes = 0;
};

inline config::LayerConfig layer(std::string name, std::string type,
                                 std::vector<std::string> inputs, std::size_t size = 0,
                                 std::string activation = "") {
  config::LayerConfig layer;
  layer.name = std::move(name);
  layer.type = std::move(type);
  layer.inputs = std::move(inputs);
  layer.size = size;
  layer.activation = std::move(activation);
  return layer;
}

inline Subject word2vec() {
  Subject subject{.name = "word2vec",
                  .slots = {{"w0", 0}, {"w1", 0}, {"w2", 0}, {"w3", 0}, {"next", 0}},
                  .layers = {layer("rows", "embedding", {"w0", "w1", "w2", "w3"}, 32),
                             layer("hidden", "fc", {"rows"}, 256, "sigmoid"),
                             layer("dropped", "dropout", {"hidden"}),
                             layer("output", "fc", {"dropped"}, kVocabulary),
                             layer("cost", "softmax_cross_entropy", {"output"})},
                  .products = {{128, 256}, {256, kVocabulary}},
                  .ids = kVocabulary,
                  .classes = kVocabulary};
  subject.layers[2].rate = 0.5F;
  return subject;
}

inline Subject ctr() {
  Subject subject{
      .name = "ctr",
      .slots = {},
      .layers = {layer("rows", "embedding", {}, 10), layer("inputs", "concat", {"rows", "dense"}),
                 layer("hidden0", "fc", {"inputs"}, 400, "relu"),
                 layer("hidden1", "fc", {"hidden0"}, 400, "relu"),
                 layer("hidden2", "fc", {"hidden1"}, 400, "relu"),
                 layer("output", "fc", {"hidden2"}, 2),
                 layer("cost", "softmax_cross_entropy", {"output"})},
      .products = {{273, 400}, {400, 400}, {400, 400}, {400, 2}},
      .ids = kCtrIds,
      .classes = 2};
  for (std::size_t i = 0; i < 26; ++i) {
    subject.slots.push_back({"C" + std::to_string(i), 0});
    subject.layers[0].inputs.push_back(subject.slots.back().name);
  }
  subject.slots.push_back({"dense", 13});
  subject.slots.push_back({"next", 0});
  return subject;
}

struct Model {
  Model(const nn::Network& network, std::size_t id_count) : ids(id_count) {
    std::iota(ids.begin(), ids.end(), 0U);
    Rng rng(1);
    for (const auto& spec : network.parameters()) {
      std::size_t count = 1;
      for (const std::uint64_t dim : spec.dims()) count *= dim == 0 ? id_count : dim;
      auto& value = values.emplace_back(count);
      for (float& one : value) one = static_cast<float>(rng.normal() * 0.05);
      parameters.dense.emplace_back();
      parameters.sparse.emplace_back();
      if (spec.sparse()) {
        parameters.sparse.back() = {ids, value};
      } else {
        parameters.dense.back() = value;
      }
    }
  }
  std::vector<std::uint64_t> ids;
  std::vector<std::vector<float>> values;
  nn::Parameters parameters;
};

// With skewed ids, half of the values of a slot are one id, as where a value is missing in real
// data.
inline nn::Batch make_batch(const Subject& subject, std::size_t size, bool is_skewed = false) {
  nn::Batch batch{size, std::vector<nn::Slot>(subject.slots.size())};
  Rng rng(2);
  for (std::size_t i = 0; i < size; ++i) {
    std::uint64_t sum = 0;
    for (std::size_t s = 0; s + 1 < subject.slots.size(); ++s) {
      for (std::size_t f = 0; f < subject.slots[s].width; ++f) {
        batch.slots[s].values.push_back(static_cast<float>(rng.uniform()));
      }
      if (subject.slots[s].width > 0) continue;
      const bool is_missing = is_skewed && rng.below(2) == 0;
      batch.slots[s].ids.push_back(is_missing ? s : rng.below(subject.ids));
      sum += batch.slots[s].ids.back();
    }
    batch.slots.back().ids.push_back(sum % subject.classes);
  }
  return batch;
}

// Builds the network with a sparse table and the last slot as the label.
inline Result<nn::Network> build(Subject subject) {
  subject.layers.front().weight.sparse = true;
  subject.layers.back().label = "next";
  return nn::Network::build(subject.layers, subject.slots);
}

}  // namespace paddle::bench
