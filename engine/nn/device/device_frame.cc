#include "engine/nn/device/device_frame.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "engine/kernels/device/costs.h"
#include "engine/kernels/device/sums.h"

namespace paddle::nn {
namespace {

// Adds up what each kind of op needs.
struct ScratchMeter {
  std::size_t rows;
  kernels::Compute compute;
  ScratchSizes sizes = {};

  void operator()(const op::Gemm& op) {
    if (compute != kernels::Compute::kBfloat16) return;
    const auto extent = [&](std::size_t size) { return size == op::kRows ? rows : size; };
    const std::size_t m = extent(op.m);
    const std::size_t n = extent(op.n);
    const std::size_t k = padded(extent(op.k));
    const auto need = [&](std::size_t index, std::size_t values) {
      sizes.factors[index] = std::max(sizes.factors[index], values);
    };
    need(0, op.transpose_a == kernels::Transpose::kYes ? k * padded(m) : m * k);
    need(1, op.transpose_b == kernels::Transpose::kYes ? n * k : k * padded(n));
  }
  void operator()(const op::ActivateBackward& op) {
    if (op.bias_gradient) need_chunks(op.width);
  }
  void operator()(const op::LayerNormBackward& op) { need_chunks(op.width); }
  void operator()(const op::SampledCost& op) { need_costs(op.candidates); }
  void operator()(const op::SoftmaxCrossEntropy&) { need_costs(1); }
  void operator()(const op::BinaryCrossEntropy&) { need_costs(1); }
  void operator()(const op::SquaredError&) { need_costs(1); }
  template <class Other>
  void operator()(const Other&) {}

 private:
  // And after them the sums of their chunks.
  void need_costs(std::size_t each) {
    const std::size_t costs = rows * each;
    const std::size_t chunks = kernels::device::cost_chunk_count(costs);
    sizes.costs = std::max(sizes.costs, costs + chunks);
    sizes.counters = std::max(sizes.counters, 1 + chunks);
  }
  void need_chunks(std::size_t width) {
    sizes.chunks = std::max(sizes.chunks, kernels::device::chunk_count(rows) * width);
    sizes.counters = std::max(sizes.counters, kernels::device::column_blocks(width));
  }
};

}  // namespace

ScratchSizes ScratchSizes::of(const Plan& plan, std::size_t rows, kernels::Compute compute) {
  ScratchMeter meter{rows, compute};
  for (const Op& op : plan.forward) std::visit(meter, op);
  for (const Op& op : plan.backward) std::visit(meter, op);
  return meter.sizes;
}

Result<DeviceFrame> DeviceFrame::make(const Plan& plan, device::Device& device,
                                      device::StreamHandle compute, WantedResults wanted) {
  PADDLE_TRY(DeviceInputs inputs, DeviceInputs::make(plan, device, compute));
  return DeviceFrame(plan, {&device, compute}, std::move(inputs), std::move(wanted));
}

DeviceFrame::DeviceFrame(const Plan& plan, device::Lane compute, DeviceInputs inputs,
                         WantedResults wanted)
    : plan_(plan),
      compute_(compute),
      inputs_(std::move(inputs)),
      results_(plan, *compute.device, std::move(wanted)),
      table_rows_(plan.parameter_gradients.size()),
      costs_(*compute.device),
      chunks_(*compute.device),
      counters_(*compute.device),
      factors_{device::CardMemory<std::uint16_t>(*compute.device),
               device::CardMemory<std::uint16_t>(*compute.device)} {
  for (std::size_t i = 0; i < plan.buffers.size(); ++i) buffers_.emplace_back(*compute.device);
}

Status DeviceFrame::write(const Run& run, TimePoint deadline) {
  staged_.reset();
  PADDLE_TRY_STATUS(inputs_.fill(run));
  std::vector<std::size_t> rooms = table_rows_;
  for (std::size_t p = 0; p < rooms.size(); ++p) {
    rooms[p] = std::max(rooms[p], std::bit_ceil(run.parameters.sparse[p].ids.size()));
  }
  PADDLE_TRY(const bool moved, inputs_.write(run, rooms, deadline));
  have_inputs_moved_ = have_inputs_moved_ || moved;
  return {};
}

Status DeviceFrame::stage(const Run& run, bool has_values, TimePoint deadline) {
  PADDLE_TRY_STATUS(write(run, deadline));
  if (has_values) inputs_.send(run);
  staged_ = {run.seed, run.rows(), run.mode, has_values};
  return {};
}

Status DeviceFrame::begin(const Run& run, TimePoint deadline) {
  const bool is_sent = is_staged(run) && staged_->is_sent;
  if (!is_staged(run)) PADDLE_TRY_STATUS(write(run, deadline));
  staged_.reset();
  PADDLE_TRY(const bool moved, reserve(run));
  if (!is_sent) inputs_.send(run);
  inputs_.begin();
  if (std::exchange(have_inputs_moved_, false) || moved) ++generation_;
  return {};
}

Result<bool> DeviceFrame::reserve(const Run& run) {
  rows_max_ = std::max(rows_max_, std::bit_ceil(run.rows()));
  bool moved = false;
  for (std::size_t p = 0; p < table_rows_.size(); ++p) {
    const SparseView& table = run.parameters.sparse[p];
    const std::size_t rows = std::max(table_rows_[p], std::bit_ceil(table.ids.size()));
    moved = moved || rows > table_rows_[p];
    table_rows_[p] = rows;
    PADDLE_CHECK(table.card == nullptr || table.card->rows_max >= rows);
  }
  PADDLE_TRY(const bool results_moved, results_.reserve(run, rows_max_, table_rows_));
  moved = moved || results_moved;
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    const Buffer& buffer = plan_.buffers[i];
    const bool is_own = buffer.kind == Buffer::Kind::kOutput ||
                        buffer.kind == Buffer::Kind::kOutputGradient ||
                        buffer.kind == Buffer::Kind::kScratch;
    if (!is_own) continue;
    PADDLE_CHECK(buffer.rows == Buffer::Rows::kRun);
    PADDLE_TRY(const bool own, buffers_[i].reserve(rows_max_ * buffer.width));
    moved = moved || own;
  }
  const ScratchSizes sizes = ScratchSizes::of(plan_, rows_max_, run.compute);
  const auto reserve_one = [&](auto& memory, std::size_t size) -> Status {
    PADDLE_TRY(const bool own, memory.reserve(size));
    moved = moved || own;
    return {};
  };
  PADDLE_TRY_STATUS(reserve_one(costs_, sizes.costs));
  PADDLE_TRY_STATUS(reserve_one(chunks_, sizes.chunks));
  PADDLE_TRY(const bool has_new_counters, counters_.reserve(sizes.counters));
  if (has_new_counters) {
    moved = true;
    compute_.device->launch(
        compute_.stream, kernels::device::Fill{.size = counters_.capacity(),
                                               .value = 0,
                                               .to = reinterpret_cast<float*>(counters_.data())});
  }
  PADDLE_TRY_STATUS(reserve_one(factors_[0], sizes.factors[0]));
  PADDLE_TRY_STATUS(reserve_one(factors_[1], sizes.factors[1]));
  return moved;
}

float* DeviceFrame::at(const Region& region) const {
  const Buffer& buffer = plan_.buffers[region.buffer];
  float* values = nullptr;
  switch (buffer.kind) {
    case Buffer::Kind::kInput:
      values = inputs_.floats(buffer.index);
      break;
    case Buffer::Kind::kParameter:
      values = inputs_.parameter(buffer.index);
      break;
    case Buffer::Kind::kParameterGradient:
      values = results_.gradient(buffer.index);
      break;
    case Buffer::Kind::kOutput:
    case Buffer::Kind::kOutputGradient:
    case Buffer::Kind::kScratch:
      values = buffers_[region.buffer].data();
      break;
  }
  return values + region.column;
}

std::size_t DeviceFrame::table_rows_max(const Region& gradient) const {
  const Buffer& buffer = plan_.buffers[gradient.buffer];
  return buffer.rows == Buffer::Rows::kTable ? table_rows_[buffer.index]
                                             : buffer.width / gradient.stride;
}

}  // namespace paddle::nn
