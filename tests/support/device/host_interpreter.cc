#include "tests/support/device/host_interpreter.h"

#include <algorithm>
#include <limits>

#include "base/check.h"
#include "base/rng.h"
#include "engine/math/costs.h"
#include "engine/math/elementwise.h"
#include "engine/math/formulas.h"
#include "engine/math/row_wise.h"
#include "engine/math/rows.h"

namespace paddle::nn {

HostFrame::HostFrame(const Plan& plan)
    : plan_(plan),
      inputs_(plan.inputs.size()),
      buffers_(plan.buffers.size()),
      costs_(plan.costs.size()),
      predictions_(plan.predictions.size()) {}

Status HostFrame::begin(const Run& run) {
  run_ = &run;
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    PADDLE_TRY_STATUS(plan_.inputs[i]->fill(run, inputs_[i]));
  }
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    buffers_[i].assign(size_of(plan_.buffers[i]), std::numeric_limits<float>::quiet_NaN());
  }
  costs_.assign(costs_.size(), 0);
  return {};
}

std::size_t HostFrame::size_of(const Buffer& buffer) const {
  if (buffer.kind == Buffer::Kind::kInput || buffer.kind == Buffer::Kind::kParameter) return 0;
  switch (buffer.rows) {
    case Buffer::Rows::kRun:
      return run_->rows() * buffer.width;
    case Buffer::Rows::kTable:
      return run_->parameters.sparse[buffer.index].ids.size() * buffer.width;
    case Buffer::Rows::kOne:
      break;
  }
  return buffer.width;
}

std::span<const float> HostFrame::parameter(std::size_t index) const {
  const std::span<const float> dense = run_->parameters.dense[index];
  return dense.empty() ? run_->parameters.sparse[index].values : dense;
}

const float* HostFrame::read(const Region& region) const {
  const Buffer& buffer = plan_.buffers[region.buffer];
  const float* values = buffers_[region.buffer].data();
  if (buffer.kind == Buffer::Kind::kInput) values = inputs_[buffer.index].floats.data();
  if (buffer.kind == Buffer::Kind::kParameter) values = parameter(buffer.index).data();
  return values + region.column;
}

float* HostFrame::write(const Region& region) {
  const Buffer::Kind kind = plan_.buffers[region.buffer].kind;
  PADDLE_CHECK(kind != Buffer::Kind::kInput && kind != Buffer::Kind::kParameter);
  return buffers_[region.buffer].data() + region.column;
}

std::span<float> HostFrame::values(std::size_t buffer) {
  return buffers_[buffer];
}

namespace {

// The functions below execute one op with the kernels of the CPU. They define what each op
// computes.

std::size_t extent(std::size_t size, const HostFrame& frame) {
  return size == op::kRows ? frame.run().rows() : size;
}

// Where a cost writes the gradient of each row: the region in training, scratch memory in a test.
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

// Copies the labels to the place of the gradient first: `kernel` reads them there and overwrites
// them with the gradient.
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

// Ops on the vectors of one row.

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

// Ops on tables.

struct Bag {
  std::span<const std::uint32_t> rows;
  const float* weights;  // null: all 1
  float scale;
};

Bag bag_of(const InputArrays& input, std::size_t index) {
  const std::size_t start = input.starts[index];
  const std::size_t count = input.starts[index + 1] - start;
  return {std::span(input.indices).subspan(start, count),
          input.weights.empty() ? nullptr : input.weights.data() + start,
          input.scales.empty() ? 1.0F : input.scales[index]};
}

// The gradient of a table, ready for additions: zeros unless an earlier op has written it.
float* table_to_add(const Region& gradient, bool accumulate, HostFrame& frame) {
  if (!accumulate) std::ranges::fill(frame.values(gradient.buffer), 0.0F);
  return frame.write(gradient);
}

void compute(const op::Gather& op, HostFrame& frame) {
  const InputArrays& input = frame.input(op.rows);
  const std::span<const std::uint32_t> indices = input.indices;
  const float* table = frame.read(op.table);
  if (input.weights.empty()) {
    kernels::gather_rows(table, indices, {op.width, op.columns, op.to.stride}, frame.write(op.to));
    return;
  }
  for (std::size_t i = 0; i < indices.size(); ++i) {
    float* to = frame.write(op.to) + i / op.columns * op.to.stride + i % op.columns * op.width;
    kernels::pool_rows(table, op.width, indices.subspan(i, 1), 1.0F, &input.weights[i], to);
  }
}

void compute(const op::GatherBackward& op, HostFrame& frame) {
  const InputArrays& input = frame.input(op.rows);
  const std::span<const std::uint32_t> indices = input.indices;
  const float* gradient = frame.read(op.gradient);
  float* table = table_to_add(op.table_gradient, op.accumulate, frame);
  if (input.weights.empty()) {
    kernels::scatter_add_rows(gradient, {op.width, op.columns, op.gradient.stride}, indices, 1.0F,
                              nullptr, table);
    return;
  }
  for (std::size_t first = 0; first < op.columns; first += op.group) {
    for (std::size_t row = 0; row < frame.run().rows(); ++row) {
      const std::size_t at = row * op.columns + first;
      kernels::scatter_add_rows(gradient + row * op.gradient.stride + first * op.width,
                                {op.width, op.group, op.gradient.stride},
                                indices.subspan(at, op.group), 1.0F, &input.weights[at], table);
    }
  }
}

void compute(const op::Pool& op, HostFrame& frame) {
  const std::size_t rows = frame.run().rows();
  for (std::size_t slot = 0; slot < op.slots; ++slot) {
    float* to = frame.write(op.to) + slot * op.width;
    for (std::size_t row = 0; row < rows; ++row, to += op.to.stride) {
      const Bag bag = bag_of(frame.input(op.bags), slot * rows + row);
      kernels::pool_rows(frame.read(op.table), op.width, bag.rows, bag.scale, bag.weights, to);
    }
  }
}

void compute(const op::PoolBackward& op, HostFrame& frame) {
  const std::size_t rows = frame.run().rows();
  float* table = table_to_add(op.table_gradient, op.accumulate, frame);
  for (std::size_t slot = 0; slot < op.slots; ++slot) {
    const float* gradient = frame.read(op.gradient) + slot * op.width;
    for (std::size_t row = 0; row < rows; ++row, gradient += op.gradient.stride) {
      const Bag bag = bag_of(frame.input(op.bags), slot * rows + row);
      // With stride 0 every row of the bag gets the same gradient.
      kernels::scatter_add_rows(gradient, {op.width, 1, 0}, bag.rows, bag.scale, bag.weights,
                                table);
    }
  }
}

void compute(const op::SampledCost& op, HostFrame& frame) {
  const InputArrays& input = frame.input(op.rows);
  const std::uint32_t* index = input.indices.data();
  const float* scale = input.scales.empty() ? nullptr : input.scales.data();
  const float* x = frame.read(op.x);
  for (std::size_t row = 0; row < frame.run().rows(); ++row, x += op.x.stride) {
    float* slopes = frame.write(op.slopes) + row * op.slopes.stride;
    double cost = 0;
    for (std::size_t k = 0; k < op.candidates; ++k) {
      const std::uint32_t at = *index++;
      const std::uint32_t bias_at = op.bias ? *index++ : kernels::kNoRow;
      const float correction = scale == nullptr ? 0.0F : *scale++;
      slopes[k] = 0;
      if (at == kernels::kNoRow) continue;
      float score = kernels::dot(op.width, x, frame.read(op.weight) + at * op.width);
      if (op.bias) score += frame.read(*op.bias)[bias_at];
      const float logit = score - correction;
      const auto of = kernels::candidate_cost_of(logit, k == 0, frame.run().cost_scale);
      cost += of.cost;
      slopes[k] = of.slope;
    }
    frame.cost(op.cost) += cost;
  }
}

void compute(const op::SampledCostBackward& op, HostFrame& frame) {
  const std::uint32_t* index = frame.input(op.rows).indices.data();
  const float* x = frame.read(op.x);
  float* x_gradient = frame.write(op.x_gradient);
  for (std::size_t row = 0; row < frame.run().rows(); ++row) {
    if (!op.accumulate) std::fill_n(x_gradient, op.width, 0.0F);
    const float* slopes = frame.read(op.slopes) + row * op.slopes.stride;
    for (std::size_t k = 0; k < op.candidates; ++k) {
      const std::uint32_t at = *index++;
      const std::uint32_t bias_at = op.bias_gradient ? *index++ : kernels::kNoRow;
      if (at == kernels::kNoRow) continue;
      kernels::dots_backward(op.width, x, frame.read(op.weight), 1, &at, 1, slopes + k, x_gradient,
                             frame.write(op.weight_gradient));
      if (op.bias_gradient) frame.write(*op.bias_gradient)[bias_at] += slopes[k];
    }
    x += op.x.stride;
    x_gradient += op.x_gradient.stride;
  }
}

void execute(const Op& op, HostFrame& frame) {
  std::visit([&](const auto& one) { compute(one, frame); }, op);
}

}  // namespace

Result<double> HostInterpreter::forward(const Run& run) {
  PADDLE_TRY_STATUS(frame_.begin(run));
  for (const Op& op : plan_.forward) execute(op, frame_);
  double sum = 0;
  for (std::size_t i = 0; i < plan_.costs.size(); ++i) sum += frame_.cost(i);
  return sum;
}

void HostInterpreter::backward() {
  PADDLE_CHECK(frame_.run().mode == Mode::kTrain);
  for (const Op& op : plan_.backward) execute(op, frame_);
}

}  // namespace paddle::nn
