// Times of steps of the word2vec N-gram network and of CTR-DNN on the first GPU, beside their
// matrix products alone. Prints JSON objects, one a line; fails unless the costs fall. Each object
// has four times:
//   step_us      forward and backward of a batch whose ids, values and parameters are copied from
//                the host, and whose gradients are copied back
//   on_card_us   with all parameters in the card's memory: a trainer's step of forward, backward
//                and update by adam, while the host prepares the next batch
//   card_us      the card's part of that step, for a batch that is on the card already
//   products_us  its matrix products alone
// In a batch of skewed ids, half of the values of each slot are one id.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench/networks.h"
#include "engine/gpu/cuda_driver.h"
#include "engine/gpu/cuda_library.h"
#include "engine/gpu/cuda_products.h"
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
    // The first of each form chooses an algorithm, which a library may refuse within a capture.
    for (const device::Product& one : products_) card_.multiply(stream_.handle(), one);
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

// Steps with all parameters on the card.
class OnCard {
 public:
  OnCard(device::Device& card, const nn::Network& network, const nn::Batch& batch, bool bf16)
      : network_(network),
        batch_(batch),
        bf16_(bf16),
        plan_(network.lower()),
        executor_(must(nn::DeviceExecutor::make(plan_, card, {}))),
        none_(network.parameters().size()) {
    const device::ComputeStream compute{&card, executor_->stream()};
    for (const wire::ParameterSpec& spec : network.parameters()) *set_.add_parameters() = spec;
    set_.mutable_optimizer()->set_method("adam");
    set_.mutable_optimizer()->set_learning_rate(1e-3F);
    set_.set_dense_strategy(wire::STRATEGY_COLLECTIVE);
    set_.set_num_trainers(1);
    set_.set_sparse_shards(1);
    auto group = must(collective::Group::join({.keys = {}, .members = {{"bench", {}}}},
                                              std::chrono::steady_clock::now()));
    client_.emplace(
        set_,
        must(strategy::GroupClient::create(set_, std::move(group), {}, {},
                                           strategy::CardRanks::Options{compute, "bench"})),
        must(strategy::CardTables::create(set_, compute, network.vocabularies())));
    for (std::uint32_t p = 0; p < network.parameters().size(); ++p) {
      if (!network.parameters()[p].sparse()) dense_.emplace_back().parameter = p;
    }
    must(client_->pull_dense(dense_));
    prepare(now_);
  }

  // As a trainer makes them: while the card computes a batch, the host gives it the update,
  // collects the ids of the next batch, which has the same examples here, finds its rows and stages
  // it. Only the reading of records is left out.
  double step_seconds() {
    bool has_rows = false;
    return seconds_of([this, &has_rows] {
      if (!has_rows) find(now_);
      must(executor_->begin(run(now_)));
      must(client_->begin_push(batch_.size, now_.rows));
      ++seed_;
      prepare(next_);
      has_rows = must(client_->pull_ahead(next_.rows));
      put_views(next_);
      must(executor_->stage(run(next_), has_rows));
      const double cost = must(executor_->finish(none_));
      costs_.push_back(cost / static_cast<double>(batch_.size));
      push(cost);
      std::swap(now_, next_);
    });
  }

  // The card alone: its time for the graph of a batch that it has already, and for the updates.
  double card_seconds() {
    double best = 1e9;
    for (int i = 0; i < kCardSteps; ++i) {
      ++seed_;
      find(now_);
      must(executor_->stage(run(now_), true));
      const double graph = seconds_between([this] { must(executor_->begin(run(now_))); });
      const double cost = must(executor_->finish(none_));
      best = std::min(best, graph + seconds_between([this, cost] { push(cost); }));
    }
    return best;
  }

  const std::vector<double>& costs() const { return costs_; }

 private:
  static constexpr int kCardSteps = 30;

  // Rows of the tables for one batch.
  struct Rows {
    std::vector<client::SparseRows> rows;
    std::vector<nn::RowLookup> lookups;
    nn::Parameters parameters;
  };

  void prepare(Rows& of) {
    const std::size_t count = network_.parameters().size();
    ids_.resize(count);
    network_.collect_ids(batch_, seed_, ids_, reads_, nullptr);
    of.lookups.resize(count);
    of.parameters.dense.resize(count);
    of.parameters.sparse.resize(count);
    of.parameters.card.resize(count);
    for (const client::DenseParameter& one : dense_) {
      of.parameters.card[one.parameter] = one.card;
    }
    if (of.rows.empty()) {
      for (std::uint32_t p = 0; p < count; ++p) {
        if (network_.parameters()[p].sparse()) of.rows.emplace_back().parameter = p;
      }
    }
    for (client::SparseRows& one : of.rows) {
      one.ids.swap(ids_[one.parameter]);
      of.lookups[one.parameter].build(one.ids);
    }
    put_views(of);
  }
  void find(Rows& of) {
    must(client_->pull_rows(of.rows));
    put_views(of);
  }
  static void put_views(Rows& of) {
    for (const client::SparseRows& one : of.rows) {
      of.parameters.sparse[one.parameter] = {
          one.ids, {}, &of.lookups[one.parameter], one.is_on_card() ? &one.card : nullptr};
    }
  }
  nn::Run run(const Rows& of) const { return run_of(batch_, of.parameters, seed_, bf16_); }
  void push(double cost) { must(client_->push(batch_.size, cost, dense_, now_.rows)); }
  // The card's time for what `give` gives it, while it has nothing else to do.
  template <class Give>
  double seconds_between(Give give) const {
    const auto stream = static_cast<cudaStream_t>(executor_->stream().value);
    cudaEvent_t events[2] = {};
    bool good = cudaDeviceSynchronize() == cudaSuccess;
    for (cudaEvent_t& event : events) good = good && cudaEventCreate(&event) == cudaSuccess;
    good = good && cudaEventRecord(events[0], stream) == cudaSuccess;
    give();
    good = good && cudaEventRecord(events[1], stream) == cudaSuccess;
    good = good && cudaEventSynchronize(events[1]) == cudaSuccess;
    float milliseconds = 0;
    good = good && cudaEventElapsedTime(&milliseconds, events[0], events[1]) == cudaSuccess;
    for (const cudaEvent_t event : events) good = cudaEventDestroy(event) == cudaSuccess && good;
    if (!good) fail({Errc::kFailed, "the card's events give no time"});
    return static_cast<double>(milliseconds) / 1e3;
  }

  const nn::Network& network_;
  const nn::Batch& batch_;
  bool bf16_;
  const nn::Plan plan_;
  std::unique_ptr<nn::DeviceExecutor> executor_;
  const std::vector<std::span<float>> none_;
  wire::ParameterSet set_;
  std::optional<strategy::CardClient> client_;
  std::vector<client::DenseParameter> dense_;
  std::vector<std::vector<std::uint64_t>> ids_;
  std::vector<nn::TableReads> reads_;
  Rows now_, next_;
  std::uint64_t seed_ = 0;
  std::vector<double> costs_;
};

void measure(device::Device& card, const Subject& subject, std::size_t size, bool bf16,
             bool is_skewed) {
  const std::size_t memory_before = memory_used();
  const nn::Network network = must(bench::build(subject));
  const nn::Plan plan = network.lower();
  const auto executor = must(nn::DeviceExecutor::make(plan, card, {}));
  Model model(network, subject.ids);
  const nn::Batch batch = bench::make_batch(subject, size, is_skewed);
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
  OnCard on_card(card, network, batch, bf16);
  const double on_card_seconds = on_card.step_seconds();
  expect_fallen(on_card.costs(), subject.name + " on the card");
  const double card_seconds = on_card.card_seconds();
  const double products_seconds = Products(card, subject, size, bf16).seconds();
  std::printf(
      "{\"network\": \"%s\", \"batch\": %zu, \"compute\": \"%s\", \"ids\": \"%s\", \"step_us\": "
      "%.1f, "
      "\"on_card_us\": %.1f, \"card_us\": %.1f, \"products_us\": %.1f, \"memory_mib\": %zu, "
      "\"cost\": [%.4f, %.4f]}\n",
      subject.name.c_str(), size, bf16 ? "bf16" : "float32", is_skewed ? "skewed" : "even",
      step_seconds * 1e6, on_card_seconds * 1e6, card_seconds * 1e6, products_seconds * 1e6,
      memory >> 20U, costs.front(), costs.back());
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
  // Bits and times may differ between two of these libraries on a machine.
  const device::LtApi products = must(device::load_lt(device::library_folders()));
  std::printf("{\"card\": \"%s\", \"open_s\": %.2f, \"cublaslt\": \"%s\"}\n",
              card->card().name.c_str(), opened.count(), products.path.c_str());
  for (const Subject& subject : {bench::word2vec(), bench::ctr()}) {
    for (const std::size_t batch : kBatches) {
      for (const bool bf16 : {false, true}) measure(*card, subject, batch, bf16, false);
    }
    measure(*card, subject, std::ranges::max(kBatches), false, true);
  }
}
