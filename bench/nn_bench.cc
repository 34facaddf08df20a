// How fast one core trains the word2vec N-gram network, and how near that is to its matrix products
// alone. Prints examples per second; the cost must fall, else the figures mean nothing.
#include <chrono>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <vector>

#include "engine/base/rng.h"
#include "engine/kernels/gemm.h"
#include "engine/nn/network.h"

namespace paddle {
namespace {

constexpr std::size_t kVocabulary = 2073;
constexpr std::size_t kEmbedding = 32;
constexpr std::size_t kContext = 4;
constexpr std::size_t kHidden = 256;
constexpr auto kMeasure = std::chrono::seconds(2);

std::vector<config::LayerConfig> ngram_layers() {
  config::LayerConfig words;
  words.name = "words";
  words.type = "embedding";
  words.inputs = {"w0", "w1", "w2", "w3"};
  words.size = kEmbedding;
  words.weight.sparse = true;
  config::LayerConfig hidden;
  hidden.name = "hidden";
  hidden.type = "fc";
  hidden.inputs = {"words"};
  hidden.size = kHidden;
  hidden.activation = "sigmoid";
  config::LayerConfig dropped;
  dropped.name = "dropped";
  dropped.type = "dropout";
  dropped.inputs = {"hidden"};
  dropped.rate = 0.5F;
  config::LayerConfig output;
  output.name = "output";
  output.type = "fc";
  output.inputs = {"dropped"};
  output.size = kVocabulary;
  config::LayerConfig cost;
  cost.name = "cost";
  cost.type = "softmax_cross_entropy";
  cost.inputs = {"output"};
  cost.label = "next";
  return {words, hidden, dropped, output, cost};
}

// Calls step() until kMeasure has passed; returns calls per second.
template <class Step>
double rate(Step step) {
  step();
  const auto start = std::chrono::steady_clock::now();
  std::size_t calls = 0;
  std::chrono::duration<double> spent{};
  while (spent < kMeasure) {
    step();
    ++calls;
    spent = std::chrono::steady_clock::now() - start;
  }
  return static_cast<double>(calls) / spent.count();
}

// The six matrix products of one forward and backward, on buffers of their own.
double products_rate(std::size_t batch) {
  constexpr std::size_t kIn = kContext * kEmbedding;
  const std::vector<float> x(batch * kIn, 0.5F);
  const std::vector<float> w1(kIn * kHidden, 0.5F);
  const std::vector<float> w2(kHidden * kVocabulary, 0.5F);
  std::vector<float> h(batch * kHidden, 0.5F);
  std::vector<float> y(batch * kVocabulary, 0.5F);
  std::vector<float> d1(w1.size());
  std::vector<float> d2(w2.size());
  std::vector<float> dx(x.size());
  using kernels::gemm;
  constexpr auto kNo = kernels::Transpose::kNo;
  constexpr auto kYes = kernels::Transpose::kYes;
  return rate([&] {
    gemm(kernels::Compute::kFloat32, kNo, kNo, batch, kHidden, kIn, x.data(), w1.data(), false,
         h.data());
    gemm(kernels::Compute::kFloat32, kNo, kNo, batch, kVocabulary, kHidden, h.data(), w2.data(),
         false, y.data());
    gemm(kernels::Compute::kFloat32, kYes, kNo, kHidden, kVocabulary, batch, h.data(), y.data(),
         false, d2.data());
    gemm(kernels::Compute::kFloat32, kNo, kYes, batch, kHidden, kVocabulary, y.data(), w2.data(),
         false, h.data());
    gemm(kernels::Compute::kFloat32, kYes, kNo, kIn, kHidden, batch, x.data(), h.data(), false,
         d1.data());
    gemm(kernels::Compute::kFloat32, kNo, kYes, batch, kIn, kHidden, h.data(), w1.data(), false,
         dx.data());
    std::fill(h.begin(), h.end(), 0.5F);  // keeps values finite
  });
}

struct Model {
  explicit Model(const nn::Network& network) {
    Rng rng(1);
    for (const auto& spec : network.parameters()) {
      std::size_t count = 1;
      for (const std::uint64_t dim : spec.dims()) count *= dim == 0 ? kVocabulary : dim;
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
  std::vector<std::uint64_t> ids = [] {
    std::vector<std::uint64_t> all(kVocabulary);
    std::iota(all.begin(), all.end(), 0U);
    return all;
  }();
  std::vector<std::vector<float>> values;
  nn::Parameters parameters;
};

bool measure(const nn::Network& network, std::size_t size) {
  Model model(network);
  nn::Batch batch{size, std::vector<nn::Slot>(kContext + 1)};
  Rng rng(2);
  for (std::size_t i = 0; i < size; ++i) {
    std::uint64_t sum = 0;
    for (std::size_t s = 0; s < kContext; ++s) {
      batch.slots[s].ids.push_back(rng.below(kVocabulary));
      sum += batch.slots[s].ids.back();
    }
    batch.slots[kContext].ids.push_back(sum % kVocabulary);
  }
  nn::Workspace workspace;
  std::vector<double> costs;
  const double steps = rate([&] {
    const nn::Run run{.batch = batch,
                      .begin = 0,
                      .end = size,
                      .parameters = model.parameters,
                      .mode = nn::Mode::kTrain,
                      .seed = costs.size()};
    workspace.clear_gradients();
    costs.push_back(network.forward(run, workspace).value() / static_cast<double>(size));
    network.backward(run, workspace);
    // A plain step on the output bias alone: enough to see that the gradient is one.
    std::vector<float>& bias = model.values.back();
    const auto gradient = workspace.gradient(model.values.size() - 1);
    for (std::size_t i = 0; i < bias.size(); ++i) {
      bias[i] -= 20.0F / static_cast<float>(size) * gradient[i];
    }
  });
  const double products = products_rate(size);
  std::printf(
      "batch %4zu: %8.0f examples/s, matrix products alone %8.0f, share %.2f, "
      "cost %.3f -> %.3f\n",
      size, steps * static_cast<double>(size), products * static_cast<double>(size),
      steps / products, costs.front(), costs.back());
  return std::isfinite(costs.back()) && costs.back() < costs.front();
}

}  // namespace
}  // namespace paddle

int main() {
  const auto network = paddle::nn::Network::build(
      paddle::ngram_layers(), {{"w0", 0}, {"w1", 0}, {"w2", 0}, {"w3", 0}, {"next", 0}});
  if (!network) {
    std::fprintf(stderr, "%s\n", network.error().message.c_str());
    return 1;
  }
  const bool good = paddle::measure(*network, 100) && paddle::measure(*network, 1024);
  if (!good) std::fprintf(stderr, "the cost did not fall\n");
  return good ? 0 : 1;
}
