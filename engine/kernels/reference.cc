#include "engine/kernels/reference.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace paddle::kernels::reference {

double activate(Activation activation, double x) {
  switch (activation) {
    case Activation::kIdentity:
      return x;
    case Activation::kSigmoid:
      return 1.0 / (1.0 + std::exp(-x));
    case Activation::kRelu:
      return std::max(x, 0.0);
    case Activation::kTanh:
      return std::tanh(x);
    case Activation::kSoftmax:
      break;
  }
  PADDLE_CHECK(activation != Activation::kSoftmax);  // it takes a row
  return x;
}

std::vector<double> softmax(const std::vector<double>& row) {
  const double shift = *std::max_element(row.begin(), row.end());
  double sum = 0;
  std::vector<double> out;
  for (const double x : row) sum += out.emplace_back(std::exp(x - shift));
  for (double& y : out) y /= sum;
  return out;
}

void gemm(Transpose transpose_a, Transpose transpose_b, std::size_t m, std::size_t n, std::size_t k,
          const double* a, const double* b, bool accumulate, double* c) {
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

double softmax_cross_entropy(const std::vector<double>& logits, std::size_t label,
                             std::vector<double>* gradient) {
  const double shift = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const double logit : logits) sum += std::exp(logit - shift);
  if (gradient != nullptr) {
    gradient->resize(logits.size());
    for (std::size_t i = 0; i < logits.size(); ++i) {
      (*gradient)[i] = std::exp(logits[i] - shift) / sum - (i == label ? 1.0 : 0.0);
    }
  }
  return std::log(sum) - (logits[label] - shift);
}

}  // namespace paddle::kernels::reference
