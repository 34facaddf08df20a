// Training speed of the word2vec N-gram network and of CTR-DNN on one core, beside that of their
// matrix products alone. Turns alternate, and the best of each counts. Prints examples per second;
// fails unless the cost falls.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <functional>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "bench/networks.h"
#include "engine/math/gemm.h"
#include "engine/nn/network.h"

namespace paddle {
namespace {

using bench::Model;
using bench::Subject;

constexpr int kTurns = 9;
constexpr auto kTurn = std::chrono::milliseconds(200);
constexpr std::pair<kernels::Compute, kernels::Kernel> kVariants[] = {
    {kernels::Compute::kFloat32, kernels::Kernel::kFloat32},
    {kernels::Compute::kBfloat16, kernels::Kernel::kBfloat16Vectors},
    {kernels::Compute::kBfloat16, kernels::Kernel::kBfloat16Tiles},
    {kernels::Compute::kBfloat16x3, kernels::Kernel::kBfloat16x3Tiles}};

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

// The matrix products of one forward and backward, on separate buffers.
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
      subject.name.c_str(), size, std::string(name_of(kernels::kernel_for(compute))).c_str(),
      steps * static_cast<double>(size), products * static_cast<double>(size), steps / products,
      costs.front(), costs.back());
  return std::isfinite(costs.back()) && costs.back() < costs.front();
}

bool measure_all(const Subject& subject, std::initializer_list<std::size_t> batches) {
  const auto network = bench::build(subject);
  if (!network) {
    std::fprintf(stderr, "%s\n", network.error().message.c_str());
    return false;
  }
  for (const std::size_t size : batches) {
    for (const auto& [compute, kernel] : kVariants) {
      if (!kernels::has_kernel(kernel)) continue;
      if (compute != kernels::Compute::kFloat32) kernels::use_kernel(compute, kernel);
      if (measure(subject, *network, size, compute)) continue;
      std::fprintf(stderr, "the cost did not fall\n");
      return false;
    }
  }
  return true;
}

}  // namespace
}  // namespace paddle

int main() {
  const bool good = paddle::measure_all(paddle::bench::word2vec(), {100, 1024}) &&
                    paddle::measure_all(paddle::bench::ctr(), {512, 1000});
  return good ? 0 : 1;
}
