#include "engine/nn/plan/host_ops.h"

#include <algorithm>

#include "base/rng.h"
#include "engine/kernels/costs.h"
#include "engine/kernels/elementwise.h"
#include "engine/kernels/rows.h"

namespace paddle::nn {
namespace {

std::size_t extent(std::size_t size, const HostFrame& frame) {
  return size == op::kRows ? frame.run().rows() : size;
}

// The gradient that a cost writes for each row: the region in training, scratch in a test.
class GradientRows {
 public:
  GradientRows(const Region& region, std::size_t width, HostFrame& frame)
      : stride_(region.stride),
        rows_(frame.run().mode == Mode::kTrain ? frame.write(region) : nullptr),
        scratch_(width) {}

  float* row(std::size_t index) {
    return rows_ == nullptr ? scratch_.data() : rows_ + index * stride_;
  }

 private:
  std::size_t stride_;
  float* rows_;
  std::vector<float> scratch_;
};

void compute(const op::Gemm& op, HostFrame& frame) {
  const std::size_t m = extent(op.m, frame);
  const std::size_t n = extent(op.n, frame);
  const std::size_t k = extent(op.k, frame);
  check_packed(op.a, op.transpose_a == kernels::Transpose::kYes ? m : k);
  check_packed(op.b, op.transpose_b == kernels::Transpose::kYes ? k : n);
  const kernels::Epilogue last{op.bias ? frame.read(*op.bias) : nullptr, op.relu};
  kernels::gemm(frame.run().compute, op.transpose_a, op.transpose_b, m, n, k, frame.read(op.a),
                frame.read(op.b), op.accumulate, frame.write(op.c), last,
                op.c.stride == n ? 0 : op.c.stride);
}

void compute(const op::Activate& op, HostFrame& frame) {
  const std::size_t rows = frame.run().rows();
  check_packed(op.from, op.width);
  check_packed(op.to, op.width);
  if (op.from != op.to) {
    std::copy_n(frame.read(op.from), rows * op.width, frame.write(op.to));
  }
  kernels::bias_activate(*op.activation, rows, op.width, nullptr, frame.write(op.to));
}

void compute(const op::ActivateBackward& op, HostFrame& frame) {
  check_packed(op.kept, op.width);
  check_packed(op.gradient, op.width);
  kernels::activation_backward(*op.activation, frame.run().rows(), op.width, frame.read(op.kept),
                               frame.write(op.gradient), op.accumulate ? 1.0F : 0.0F,
                               op.bias_gradient ? frame.write(*op.bias_gradient) : nullptr);
}

void compute(const op::Copy& op, HostFrame& frame) {
  kernels::copy_block(frame.run().rows(), op.width, frame.read(op.from), op.from.stride,
                      frame.write(op.to), op.to.stride, op.accumulate);
}

void compute(const op::Zero& op, HostFrame& frame) {
  std::ranges::fill(frame.values(op.buffer), 0.0F);
}

void compute(const op::Sum& op, HostFrame& frame) {
  for (std::size_t row = 0; row < frame.run().rows(); ++row) {
    float* to = frame.write(op.to) + row * op.to.stride;
    for (std::size_t i = 0; i < op.from.size(); ++i) {
      const float* from = frame.read(op.from[i]) + row * op.from[i].stride;
      kernels::copy_block(1, op.width, from, op.width, to, op.width, i > 0);
    }
  }
}

void compute(const op::Product& op, HostFrame& frame) {
  std::vector<float> product(op.width);
  for (std::size_t row = 0; row < frame.run().rows(); ++row) {
    for (std::size_t i = 0; i < op.from.size(); ++i) {
      const float* from = frame.read(op.from[i]) + row * op.from[i].stride;
      if (i == 0) {
        std::copy_n(from, op.width, product.data());
      } else {
        kernels::multiply_by(op.width, from, product.data());
      }
    }
    kernels::copy_block(1, op.width, product.data(), op.width,
                        frame.write(op.to) + row * op.to.stride, op.width, op.accumulate);
  }
}

void compute(const op::Dropout& op, HostFrame& frame) {
  const Run& run = frame.run();
  for (std::size_t row = 0; row < run.rows(); ++row) {
    const float* from = frame.read(op.from) + row * op.from.stride;
    float* to = frame.write(op.to) + row * op.to.stride;
    if (run.mode == Mode::kTest) {
      std::copy_n(from, op.width, to);
      continue;
    }
    float* mask = frame.write(op.mask) + row * op.mask.stride;
    kernels::dropout_mask(example_stream(run.seed, op.layer, run.begin + row), op.rate, op.width,
                          mask);
    kernels::multiply(op.width, from, mask, false, to);
  }
}

void compute(const op::SoftmaxCrossEntropy& op, HostFrame& frame) {
  const Run& run = frame.run();
  const float* logits = frame.read(op.logits);
  const auto& classes = frame.input(op.classes).indices;
  auto& predictions = frame.predictions(op.predictions);
  predictions.resize(run.rows());
  GradientRows gradient(op.gradient, op.width, frame);
  const float scale = run.mode == Mode::kTrain ? run.cost_scale : 0.0F;
  for (std::size_t row = 0; row < run.rows(); ++row, logits += op.logits.stride) {
    const kernels::SoftmaxCost result =
        kernels::softmax_cross_entropy(op.width, logits, classes[row], scale, gradient.row(row));
    frame.cost(op.cost) += result.cost;
    predictions[row] = static_cast<std::uint32_t>(result.prediction);
  }
}

// Kernels that turn labels into the gradient get a copy of them in its place.
template <class Op, class Kernel>
void compute_cost(const Op& op, HostFrame& frame, Kernel kernel) {
  const Run& run = frame.run();
  GradientRows gradient(op.gradient, op.width, frame);
  for (std::size_t row = 0; row < run.rows(); ++row) {
    float* slope = gradient.row(row);
    std::copy_n(frame.read(op.labels) + row * op.labels.stride, op.width, slope);
    frame.cost(op.cost) +=
        kernel(op.width, frame.read(op.x) + row * op.x.stride, run.cost_scale, slope);
  }
}

void compute(const op::BinaryCrossEntropy& op, HostFrame& frame) {
  compute_cost(op, frame, kernels::binary_cross_entropy);
}

void compute(const op::SquaredError& op, HostFrame& frame) {
  compute_cost(op, frame, kernels::squared_error);
}

}  // namespace

void execute(const Op& op, HostFrame& frame) {
  std::visit([&](const auto& one) { compute(one, frame); }, op);
}

}  // namespace paddle::nn
