#include <algorithm>
#include <span>

#include "engine/kernels/rows.h"
#include "engine/nn/plan/host_ops.h"

namespace paddle::nn {
namespace {

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

// The gradient of a table, ready to be added to.
float* table_to_add(const Region& gradient, bool accumulate, HostFrame& frame) {
  if (!accumulate) std::ranges::fill(frame.values(gradient.buffer), 0.0F);
  return frame.write(gradient);
}

}  // namespace

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

}  // namespace paddle::nn
