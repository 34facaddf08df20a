// Training speed of the word2vec N-gram network and of CTR-DNN on one core, beside that of their
// matrix products alone. Turns alternate, and the best of each counts. Prints examples per second;
// fails unless the cost falls.
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <functional>
#include <initializer_list>
#include <numeric>
#include <string>
#include <vector>

#include "base/rng.h"
#include "engine/kernels/gemm.h"
#include "engine/nn/network/network.h"

namespace paddle {
namespace {

constexpr std::size_t kVocabulary = 2073;  // of word2vec
constexpr std::size_t kCtrIds =
    20000;  // distinct ids in batches: their table does not fit the caches
constexpr int kTurns = 9;
constexpr auto kTurn = std::chrono::milliseconds(200);

struct Subject {
  std::string name;
  std::vector<config::SlotConfig> slots;  // the label is the last
  std::vector<config::LayerConfig> layers;
  std::vector<std::array<std::size_t, 2>> products;  // input and output width of each fc
  std::size_t ids = 0;                               // number of distinct ids
  std::size_t classes = 0;
};

config::LayerConfig layer(std::string name, std::string type, std::vector<std::string> inputs,
                          std::size_t size = 0, std::string activation = "") {
  config::LayerConfig layer;
  layer.name = std::move(name);
  layer.type = std::move(type);
  layer.inputs = std::move(inputs);
  layer.size = size;
  layer.activation = std::move(activation);
  return layer;
}

Subject word2vec() {
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

Subject ctr() {
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

// Calls step() until kTurn has passed; returns calls per second.
template <class Step>
double rate(Step step) {
  step();
  const auto start = std::chrono::steady_clock::now();
  std::size_t calls = 0;
  std::chrono::duration<double> spent{};
  while (spent < kTurn) {
    step();
    ++calls;
    spent = std::chrono::steady_clock::now() - start;
  }
  return static_cast<double>(calls) / spent.count();
}

// Matrix products of one forward and backward, on buffers of their own.
std::function<void()> make_products(const Subject& subject, std::size_t batch,
                                    kernels::Compute compute) {
  struct Buffers {
    std::vector<float> x, w, y, dx, dw;
  };
  std::vector<Buffers> buffers;
  for (const auto& [in, out] : subject.products) {
    const auto filled = [](std::size_t size) { return std::vector<float>(size, 0.5F); };
    buffers.push_back({filled(batch * in), filled(in * out), filled(batch * out),
                       filled(batch * in), filled(in * out)});
  }
  using kernels::gemm;
  constexpr auto kNo = kernels::Transpose::kNo;
  constexpr auto kYes = kernels::Transpose::kYes;
  return [compute, batch, sizes = subject.products, buffers = std::move(buffers)]() mutable {
    for (std::size_t i = 0; i < buffers.size(); ++i) {
      const auto [in, out] = sizes[i];
      Buffers& one = buffers[i];
      gemm(compute, kNo, kNo, batch, out, in, one.x.data(), one.w.data(), false, one.y.data());
    }
    for (std::size_t i = buffers.size(); i-- > 0;) {
      const auto [in, out] = sizes[i];
      Buffers& one = buffers[i];
      gemm(compute, kYes, kNo, in, out, batch, one.x.data(), one.y.data(), false, one.dw.data());
      gemm(compute, kNo, kYes, batch, in, out, one.y.data(), one.w.data(), false, one.dx.data());
    }
  };
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

nn::Batch make_batch(const Subject& subject, std::size_t size) {
  nn::Batch batch{size, std::vector<nn::Slot>(subject.slots.size())};
  Rng rng(2);
  for (std::size_t i = 0; i < size; ++i) {
    std::uint64_t sum = 0;
    for (std::size_t s = 0; s + 1 < subject.slots.size(); ++s) {
      for (std::size_t f = 0; f < subject.slots[s].width; ++f) {
        batch.slots[s].values.push_back(static_cast<float>(rng.uniform()));
      }
      if (subject.slots[s].width > 0) continue;
      batch.slots[s].ids.push_back(rng.below(subject.ids));
      sum += batch.slots[s].ids.back();
    }
    batch.slots.back().ids.push_back(sum % subject.classes);
  }
  return batch;
}

bool measure(const Subject& subject, const nn::Network& network, std::size_t size,
             kernels::Compute compute) {
  Model model(network, subject.ids);
  const nn::Batch batch = make_batch(subject, size);
  const float learning_rate = 0.01F * static_cast<float>(subject.classes);
  nn::Workspace workspace;
  std::vector<double> costs;
  const auto step = [&] {
    const nn::Run run{.batch = batch,
                      .begin = 0,
                      .end = size,
                      .parameters = model.parameters,
                      .mode = nn::Mode::kTrain,
                      .seed = costs.size(),
                      .compute = compute};
    workspace.clear_gradients();
    costs.push_back(network.forward(run, workspace).value() / static_cast<double>(size));
    network.backward(run, workspace);
    // A step on the output bias alone suffices for the cost to fall.
    std::vector<float>& bias = model.values.back();
    const auto gradient = workspace.gradient(model.values.size() - 1);
    for (std::size_t i = 0; i < bias.size(); ++i) {
      bias[i] -= learning_rate / static_cast<float>(size) * gradient[i];
    }
  };
  const auto multiply = make_products(subject, size, compute);
  double steps = 0;
  double products = 0;
  for (int turn = 0; turn < kTurns; ++turn) {
    steps = std::max(steps, rate(step));
    products = std::max(products, rate(multiply));
  }
  std::printf(
      "%s batch %4zu %s: %8.0f examples/s, matrix products alone %8.0f, share %.2f, "
      "cost %.3f -> %.3f\n",
      subject.name.c_str(), size, compute == kernels::Compute::kBfloat16 ? "bf16" : "float32",
      steps * static_cast<double>(size), products * static_cast<double>(size), steps / products,
      costs.front(), costs.back());
  return std::isfinite(costs.back()) && costs.back() < costs.front();
}

bool measure_all(Subject subject, std::initializer_list<std::size_t> batches) {
  subject.layers.front().weight.sparse = true;
  subject.layers.back().label = "next";
  const auto network = nn::Network::build(subject.layers, subject.slots);
  if (!network) {
    std::fprintf(stderr, "%s\n", network.error().message.c_str());
    return false;
  }
  for (const std::size_t size : batches) {
    for (const auto compute : {kernels::Compute::kFloat32, kernels::Compute::kBfloat16}) {
      if (!kernels::can_compute(compute) || measure(subject, *network, size, compute)) continue;
      std::fprintf(stderr, "the cost did not fall\n");
      return false;
    }
  }
  return true;
}

}  // namespace
}  // namespace paddle

int main() {
  const bool good = paddle::measure_all(paddle::word2vec(), {100, 1024}) &&
                    paddle::measure_all(paddle::ctr(), {512, 1000});
  return good ? 0 : 1;
}
