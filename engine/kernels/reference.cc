#include "engine/kernels/reference.h"

#include <algorithm>
#include <cmath>

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
  }
  return x;
}

void gemm(Transpose transpose_a, Transpose transpose_b, std::size_t m, std::size_t n, std::size_t k,
          double alpha, const double* a, const double* b, double beta, double* c) {
  for (std::size_t i = 0; i < m; ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      double sum = 0;
      for (std::size_t l = 0; l < k; ++l) {
        sum += (transpose_a == Transpose::kYes ? a[l * m + i] : a[i * k + l]) *
               (transpose_b == Transpose::kYes ? b[j * k + l] : b[l * n + j]);
      }
      c[i * n + j] = alpha * sum + (beta == 0 ? 0 : beta * c[i * n + j]);
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
