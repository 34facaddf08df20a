// Times of steps of the word2vec N-gram network and of CTR-DNN on the first GPU, beside their
// matrix products alone. A step is forward and backward of a batch whose ids, values and parameters
// are copied from the host, and whose gradients are copied back; or, with all parameters in the
// card's memory, forward, backward and their update by adam. Prints JSON objects, one a line; fails
// unless the costs fall.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "bench/networks.h"
#include "engine/gpu/cuda_driver.h"
#include "engine/gpu/device_executor.h"
#include "engine/gpu/handles.h"
#include "engine/group/card_client.h"

namespace paddle {
namespace {

using bench::Model;
using bench::Subject;
using Seconds = std::chrono::duration<double>;

constexpr int kTurns = 5;
constexpr Seconds kTurn(0.2);
constexpr int kGraphSteps = 20;  // products of so many steps are one graph
constexpr std::size_t kBatches[] = {512, 4096, 16384};

[[noreturn]] void fail(const Error& error) {
  std::fprintf(stderr, "%s\n", error.message.c_str());
  std::exit(static_cast<int>(error.code));
}
template <class T>
T must(Result<T> result) {
  if (!result) fail(result.error());
  return *std::move(result);
}
void must(const Status& status) {
  if (!status) fail(status.error());
}

// Seconds of one call, the best of several turns: other processes on the machine only add time.
template <class Step>
double seconds_of(Step step) {
  double best = 1e9;
  step();
  for (int turn = 0; turn < kTurns; ++turn) {
    const auto start = std::chrono::steady_clock::now();
    int calls = 0;
    Seconds spent{};
    for (; spent < kTurn; ++calls) {
      step();
      spent = std::chrono::steady_clock::now() - start;
    }
    best = std::min(best, spent.count() / calls);
  }
  return best;
}

// The matrix products of a forward and backward, without those of few columns, for which no library
// is used.
class Products {
 public:
  Products(device::Device& card, const Subject& subject, std::size_t batch, bool bf16)
      : card_(card),
        stream_(must(device::Stream::open(card))),
        done_(must(device::Event::make(card))) {
    const auto padded = [bf16](std::size_t width) { return bf16 ? (width + 7) / 8 * 8 : width; };
    const std::size_t bytes = bf16 ? 2 : 4;
    const auto precision = bf16 ? device::Precision::kBfloat16 : device::Precision::kFloat32;
    for (const auto& [in, out] : subject.products) {
      if (out <= kernels::device::kThinColumns) continue;
      const void* const x = memory(batch * padded(in) * bytes);
      const void* const w = memory(in * padded(out) * bytes);
      const void* const dy = memory(batch * padded(out) * bytes);
      device::Product forward{.m = batch, .n = out, .k = in, .precision = precision};
      device::Product of_w{
          .transpose_a = true, .m = in, .n = out, .k = batch, .precision = precision};
      device::Product of_x{
          .transpose_b = true, .m = batch, .n = in, .k = out, .precision = precision};
      forward.a = of_w.a = x;
      forward.a_stride = of_w.a_stride = padded(in);
      forward.b = of_x.b = w;
      forward.b_stride = of_x.b_stride = of_w.b_stride = of_x.a_stride = padded(out);
      of_w.b = of_x.a = dy;
      for (device::Product* const one : {&forward, &of_w, &of_x}) {
        one->c = reinterpret_cast<float*>(memory(one->m * one->n * 4));
        one->c_stride = one->n;
      }
      products_.insert(products_.end(), {forward, of_w, of_x});
    }
    card_.begin_capture(stream_.handle());
    for (int i = 0; i < kGraphSteps; ++i) {
      for (const device::Product& one : products_) card_.multiply(stream_.handle(), one);
    }
    graph_ = std::make_unique<device::Graph>(card_, must(card_.end_capture(stream_.handle())));
  }

  double seconds() {
    return seconds_of([this] {
             card_.replay(stream_.handle(), graph_->handle());
             card_.record(stream_.handle(), done_.handle());
             must(card_.wait(done_.handle(), SteadyClock().now() + std::chrono::minutes(1)));
           }) /
           kGraphSteps;
  }

 private:
  std::byte* memory(std::size_t bytes) {
    auto& one = memory_.emplace_back(card_);
    must(one.reserve(bytes));
    card_.launch(stream_.handle(),
                 kernels::device::Fill{bytes / 4, 0.5F, reinterpret_cast<float*>(one.data())});
    return one.data();
  }

  device::Device& card_;
  device::Stream stream_;
  device::Event done_;
  std::vector<device::CardMemory<std::byte>> memory_;
  std::vector<device::Product> products_;
  std::unique_ptr<device::Graph> graph_;
};

std::size_t memory_used() {
  std::size_t left = 0;
  std::size_t all = 0;
  return cudaMemGetInfo(&left, &all) == cudaSuccess ? all - left : 0;
}

nn::Run run_of(const nn::Batch& batch, const nn::Parameters& parameters, std::uint64_t seed,
               bool bf16) {
  return {.batch = batch,
          .begin = 0,
          .end = batch.size,
          .parameters = parameters,
          .mode = nn::Mode::kTrain,
          .seed = seed,
          .cost_scale = 1.0F / static_cast<float>(batch.size),
          .compute = bf16 ? kernels::Compute::kBfloat16 : kernels::Compute::kFloat32};
}

void expect_fallen(const std::vector<double>& costs, const std::string& name) {
  if (std::isfinite(costs.back()) && costs.back() < costs.front()) return;
  fail({Errc::kFailed, "the cost of " + name + " did not fall"});
}

// Seconds of a step with all parameters on the card.
double seconds_on_card(device::Device& card, const nn::Network& network, const nn::Batch& batch,
                       std::size_t ids, bool bf16) {
  const nn::Plan plan = network.lower();
  const auto executor = must(nn::DeviceExecutor::make(plan, card, {}));
  const device::ComputeStream compute{&card, executor->stream()};
  wire::ParameterSet set;
  for (const wire::ParameterSpec& spec : network.parameters()) *set.add_parameters() = spec;
  set.mutable_optimizer()->set_method("adam");
  set.mutable_optimizer()->set_learning_rate(1e-3F);
  set.set_dense_strategy(wire::STRATEGY_COLLECTIVE);
  set.set_num_trainers(1);
  set.set_sparse_shards(1);
  auto group = must(collective::Group::join({.keys = {}, .members = {{"bench", {}}}},
                                            std::chrono::steady_clock::now()));
  strategy::CardClient client(
      set,
      must(strategy::GroupClient::create(set, std::move(group), {}, {},
                                         strategy::CardRanks::Options{compute, "bench"})),
      must(strategy::CardTables::create(set, compute, network.vocabularies())));
  std::vector<client::DenseParameter> dense;
  std::vector<client::SparseRows> rows;
  for (std::uint32_t p = 0; p < network.parameters().size(); ++p) {
    if (!network.parameters()[p].sparse()) {
      dense.emplace_back().parameter = p;
      continue;
    }
    rows.emplace_back().parameter = p;
    rows.back().ids.resize(ids);
    std::iota(rows.back().ids.begin(), rows.back().ids.end(), 0U);
  }
  must(client.pull_dense(dense));
  nn::Parameters parameters;
  parameters.dense.resize(network.parameters().size());
  parameters.sparse.resize(network.parameters().size());
  parameters.card.resize(network.parameters().size());
  for (const client::DenseParameter& one : dense) parameters.card[one.parameter] = one.card;
  const std::vector<std::span<float>> none(network.parameters().size());
  std::vector<double> costs;
  const double seconds = seconds_of([&] {
    must(client.pull_rows(rows));
    for (const client::SparseRows& one : rows) {
      parameters.sparse[one.parameter] = {one.ids, {}, nullptr, &one.card};
    }
    const double cost = must(executor->run(run_of(batch, parameters, costs.size(), bf16), none));
    costs.push_back(cost / static_cast<double>(batch.size));
    must(client.push(batch.size, cost, dense, rows));
  });
  expect_fallen(costs, "a network on the card");
  return seconds;
}

void measure(device::Device& card, const Subject& subject, std::size_t size, bool bf16) {
  const std::size_t memory_before = memory_used();
  const nn::Network network = must(bench::build(subject));
  const nn::Plan plan = network.lower();
  const auto executor = must(nn::DeviceExecutor::make(plan, card, {}));
  Model model(network, subject.ids);
  const nn::Batch batch = bench::make_batch(subject, size);
  std::vector<std::vector<float>> gradients;
  for (const auto& value : model.values) gradients.emplace_back(value.size());
  const std::vector<std::span<float>> spans(gradients.begin(), gradients.end());
  std::vector<double> costs;
  const float rate = 0.01F * static_cast<float>(subject.classes);
  const auto step = [&] {
    const nn::Run run = run_of(batch, model.parameters, costs.size(), bf16);
    costs.push_back(must(executor->run(run, spans)) / static_cast<double>(size));
    // A step on the output bias alone suffices for the cost to fall.
    std::vector<float>& bias = model.values.back();
    for (std::size_t i = 0; i < bias.size(); ++i) bias[i] -= rate * gradients.back()[i];
  };
  const double step_seconds = seconds_of(step);
  const std::size_t memory = memory_used() - memory_before;
  expect_fallen(costs, subject.name);
  const double on_card_seconds = seconds_on_card(card, network, batch, subject.ids, bf16);
  const double products_seconds = Products(card, subject, size, bf16).seconds();
  std::printf(
      "{\"network\": \"%s\", \"batch\": %zu, \"compute\": \"%s\", \"step_us\": %.1f, "
      "\"on_card_us\": %.1f, \"products_us\": %.1f, \"memory_mib\": %zu, \"cost\": [%.4f, %.4f]}\n",
      subject.name.c_str(), size, bf16 ? "bf16" : "float32", step_seconds * 1e6,
      on_card_seconds * 1e6, products_seconds * 1e6, memory >> 20U, costs.front(), costs.back());
  std::fflush(stdout);
}

}  // namespace
}  // namespace paddle

int main() {
  using namespace paddle;  // NOLINT
  const auto start = std::chrono::steady_clock::now();
  device::CudaDriver driver;
  const auto card = must(driver.open(0));
  const Seconds opened = std::chrono::steady_clock::now() - start;
  std::printf("{\"card\": \"%s\", \"open_s\": %.2f}\n", card->card().name.c_str(), opened.count());
  for (const Subject& subject : {bench::word2vec(), bench::ctr()}) {
    for (const std::size_t batch : kBatches) {
      for (const bool bf16 : {false, true}) measure(*card, subject, batch, bf16);
    }
  }
}
