// Training speed of the word2vec N-gram network and of CTR-DNN on one core, beside that of their
// matrix products alone, by our kernels and by OpenBLAS, and beside the CPU's peak of float32
// multiply-adds. Turns alternate, and the best of each counts. Prints examples per second and
// GFLOP/s; fails unless the cost falls.
#include <cblas.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

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

#if defined(__x86_64__)
constexpr std::size_t kSums = 12;  // independent sums hide the latency of a multiply-add
constexpr int kSteps = 1 << 16U;

[[gnu::noinline, gnu::target("avx512f")]] float multiply_add() {
  asm volatile("");    // else equal calls would be computed once
  __m512 sums[kSums];  // all different, else the compiler would compute one sum only
  float first = 0;
  for (__m512& sum : sums) sum = _mm512_set1_ps(++first);
  const __m512 one = _mm512_set1_ps(1);
  for (int i = 0; i < kSteps; ++i) {
#pragma GCC unroll 12
    for (__m512& sum : sums) sum = _mm512_fmadd_ps(one, one, sum);
  }
  for (const __m512& sum : sums) sums[0] = _mm512_add_ps(sums[0], sum);
  return _mm512_cvtss_f32(sums[0]);
}
#endif

// GFLOP/s of multiply-adds that stay in registers; 0 on a CPU without AVX-512, for which there are
// no kernels of ours.
double peak() {
  double best = 0;
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") == 0) return 0;
  volatile float kept = 0;
  for (int turn = 0; turn < kTurns; ++turn) {
    best = std::max(best, rate([&] { kept = multiply_add(); }));
  }
  best *= 2.0 * 16 * kSums * kSteps / 1e9;
#endif
  return best;
}

// As kernels::gemm() without an epilogue.
void openblas_gemm(kernels::Compute /*compute*/, kernels::Transpose transpose_a,
                   kernels::Transpose transpose_b, std::size_t m, std::size_t n, std::size_t k,
                   const float* a, const float* b, bool accumulate, float* c) {
  const bool is_a_flipped = transpose_a == kernels::Transpose::kYes;
  const bool is_b_flipped = transpose_b == kernels::Transpose::kYes;
  const auto size = [](std::size_t value) { return static_cast<blasint>(value); };
  cblas_sgemm(CblasRowMajor, is_a_flipped ? CblasTrans : CblasNoTrans,
              is_b_flipped ? CblasTrans : CblasNoTrans, size(m), size(n), size(k), 1, a,
              size(is_a_flipped ? m : k), b, size(is_b_flipped ? k : n), accumulate ? 1 : 0, c,
              size(n));
}

void our_gemm(kernels::Compute compute, kernels::Transpose transpose_a,
              kernels::Transpose transpose_b, std::size_t m, std::size_t n, std::size_t k,
              const float* a, const float* b, bool accumulate, float* c) {
  kernels::gemm(compute, transpose_a, transpose_b, m, n, k, a, b, accumulate, c);
}

// Floating-point operations of the products of make_products() for one example.
double operations_of(const Subject& subject) {
  double count = 0;
  for (const auto& [in, out] : subject.products) count += 3 * 2.0 * static_cast<double>(in * out);
  return count;
}

// The matrix products of one forward and backward, on separate buffers.
std::function<void()> make_products(const Subject& subject, std::size_t batch,
                                    kernels::Compute compute, decltype(our_gemm)& gemm) {
  struct Buffers {
    std::vector<float> x, w, y, dx, dw;
  };
  std::vector<Buffers> buffers;
  for (const auto& [in, out] : subject.products) {
    const auto filled = [](std::size_t size) { return std::vector<float>(size, 0.5F); };
    buffers.push_back({filled(batch * in), filled(in * out), filled(batch * out),
                       filled(batch * in), filled(in * out)});
  }
  constexpr auto kNo = kernels::Transpose::kNo;
  constexpr auto kYes = kernels::Transpose::kYes;
  return [compute, batch, &gemm, sizes = subject.products, buffers = std::move(buffers)]() mutable {
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
             kernels::Compute compute, double peak) {
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
  const auto multiply = make_products(subject, size, compute, our_gemm);
  const auto multiply_openblas = make_products(subject, size, compute, openblas_gemm);
  double steps = 0;
  double products = 0;
  double openblas = 0;
  for (int turn = 0; turn < kTurns; ++turn) {
    steps = std::max(steps, rate(step));
    products = std::max(products, rate(multiply));
    openblas = std::max(openblas, rate(multiply_openblas));
  }
  const double examples = static_cast<double>(size);
  const double giga = operations_of(subject) * examples / 1e9;
  std::printf(
      "%s batch %4zu %s: %8.0f examples/s, matrix products alone %8.0f, share %.2f, "
      "cost %.3f -> %.3f; products %.0f GFLOP/s, OpenBLAS's float32 %.0f, peak of float32 %.0f\n",
      subject.name.c_str(), size, std::string(name_of(kernels::kernel_for(compute))).c_str(),
      steps * examples, products * examples, steps / products, costs.front(), costs.back(),
      products * giga, openblas * giga, peak);
  return std::isfinite(costs.back()) && costs.back() < costs.front();
}

bool measure_all(const Subject& subject, std::initializer_list<std::size_t> batches, double peak) {
  const auto network = bench::build(subject);
  if (!network) {
    std::fprintf(stderr, "%s\n", network.error().message.c_str());
    return false;
  }
  for (const std::size_t size : batches) {
    for (const auto& [compute, kernel] : kVariants) {
      if (!kernels::has_kernel(kernel)) continue;
      if (compute != kernels::Compute::kFloat32) kernels::use_kernel(compute, kernel);
      if (measure(subject, *network, size, compute, peak)) continue;
      std::fprintf(stderr, "the cost did not fall\n");
      return false;
    }
  }
  return true;
}

}  // namespace
}  // namespace paddle

int main() {
  const double peak = paddle::peak();
  const bool good = paddle::measure_all(paddle::bench::word2vec(), {100, 1024}, peak) &&
                    paddle::measure_all(paddle::bench::ctr(), {512, 1000}, peak);
  return good ? 0 : 1;
}
