#include <algorithm>

#include "engine/kernels/row_wise.h"
#include "engine/nn/plan/host_ops.h"

namespace paddle::nn {

void compute(const op::LayerNorm& op, HostFrame& frame) {
  check_packed(op.from, op.width);
  check_packed(op.to, op.width);
  kernels::layer_norm(frame.run().rows(), op.width, op.epsilon, frame.read(op.from),
                      frame.read(op.gain), frame.read(op.bias), frame.write(op.to),
                      frame.write(op.statistics));
}

void compute(const op::LayerNormBackward& op, HostFrame& frame) {
  check_packed(op.from, op.width);
  check_packed(op.gradient, op.width);
  check_packed(op.to, op.width);
  kernels::layer_norm_backward(frame.run().rows(), op.width, frame.read(op.from),
                               frame.read(op.gain), frame.read(op.statistics),
                               frame.read(op.gradient), op.accumulate, frame.write(op.to),
                               frame.write(op.gain_gradient), frame.write(op.bias_gradient));
}

void compute(const op::PairSum& op, HostFrame& frame) {
  std::vector<float> squares(op.factors);
  for (std::size_t row = 0; row < frame.run().rows(); ++row) {
    float* sums = frame.write(op.sums) + row * op.sums.stride;
    std::fill_n(sums, op.factors, 0.0F);
    std::ranges::fill(squares, 0.0F);
    for (const auto& [fields, region] : op.from) {
      kernels::add_fields(fields, op.factors, frame.read(region) + row * region.stride, sums,
                          squares.data());
    }
    frame.write(op.to)[row * op.to.stride] = kernels::pair_sum(op.factors, sums, squares.data());
  }
}

void compute(const op::PairSumBackward& op, HostFrame& frame) {
  const Region& from = op.from.region;
  for (std::size_t row = 0; row < frame.run().rows(); ++row) {
    kernels::pair_sum_backward(op.from.fields, op.factors, frame.read(from) + row * from.stride,
                               frame.read(op.sums) + row * op.sums.stride,
                               frame.read(op.gradient)[row * op.gradient.stride], op.accumulate,
                               frame.write(op.to) + row * op.to.stride);
  }
}

void compute(const op::CosineSimilarity& op, HostFrame& frame) {
  for (std::size_t row = 0; row < frame.run().rows(); ++row) {
    const kernels::Cosine cosine = kernels::cosine(op.width, frame.read(op.a) + row * op.a.stride,
                                                   frame.read(op.b) + row * op.b.stride);
    frame.write(op.to)[row * op.to.stride] = op.scale * cosine.value();
  }
}

void compute(const op::CosineSimilarityBackward& op, HostFrame& frame) {
  for (std::size_t row = 0; row < frame.run().rows(); ++row) {
    const float* from = frame.read(op.from) + row * op.from.stride;
    const float* other = frame.read(op.other) + row * op.other.stride;
    const float slope = op.scale * frame.read(op.gradient)[row * op.gradient.stride];
    kernels::cosine_backward(op.width, kernels::cosine(op.width, from, other), slope, from, other,
                             op.accumulate, frame.write(op.to) + row * op.to.stride);
  }
}

}  // namespace paddle::nn
