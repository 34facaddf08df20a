// Kernels in double precision, straight from their definitions, for tests to compare with.
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/rng.h"
#include "engine/math/gemm.h"

namespace paddle::kernels::reference {

// Normally distributed values, the same ones for the same stream.
inline std::vector<float> random_floats(std::size_t count, std::uint64_t stream) {
  Rng rng(stream);
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(rng.normal());
  return values;
}

inline float round_to_bfloat16(float value) {
  auto bits = std::bit_cast<std::uint32_t>(value);
  bits += 0x7fffU + ((bits >> 16U) & 1U);  // to nearest, ties to even
  return std::bit_cast<float>(bits & 0xffff0000U);
}

// How often `multiply` fills a vector with anything but `expected`, on four threads at once.
template <class Multiply>
int differ_on_threads(const std::vector<float>& expected, int times, const Multiply& multiply) {
  std::atomic<int> different = 0;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&] {
      std::vector<float> c(expected.size());
      for (int i = 0; i < times; ++i) {
        multiply(c);
        if (c != expected) ++different;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  return different;
}

// Every activation but softmax, which takes a row.
inline double activate(std::string_view activation, double x) {
  if (activation == "identity") return x;
  if (activation == "sigmoid") return 1.0 / (1.0 + std::exp(-x));
  if (activation == "relu") return std::max(x, 0.0);
  if (activation == "tanh") return std::tanh(x);
  if (activation == "gelu") return 0.5 * x * std::erfc(-x / std::sqrt(2.0));
  throw std::runtime_error("no reference for " + std::string(activation));
}

inline std::vector<double> softmax(const std::vector<double>& row) {
  const double shift = *std::max_element(row.begin(), row.end());
  double sum = 0;
  std::vector<double> out;
  for (const double x : row) sum += out.emplace_back(std::exp(x - shift));
  for (double& y : out) y /= sum;
  return out;
}

// The contract of kernels::gemm.
inline void gemm(Transpose transpose_a, Transpose transpose_b, std::size_t m, std::size_t n,
                 std::size_t k, const double* a, const double* b, bool accumulate, double* c) {
  for (std::size_t i = 0; i < m; ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      double sum = 0;
      for (std::size_t l = 0; l < k; ++l) {
        sum += (transpose_a == Transpose::kYes ? a[l * m + i] : a[i * k + l]) *
               (transpose_b == Transpose::kYes ? b[j * k + l] : b[l * n + j]);
      }
      c[i * n + j] = sum + (accumulate ? c[i * n + j] : 0);
    }
  }
}

// -ln softmax(logits)[label]; `gradient`, if not null, is resized to the width.
inline double softmax_cross_entropy(const std::vector<double>& logits, std::size_t label,
                                    std::vector<double>* gradient) {
  const std::vector<double> p = softmax(logits);
  if (gradient != nullptr) {
    *gradient = p;
    (*gradient)[label] -= 1;
  }
  const double shift = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const double logit : logits) sum += std::exp(logit - shift);
  return std::log(sum) - (logits[label] - shift);
}

}  // namespace paddle::kernels::reference
