#include "engine/nn/plan/host_frame.h"

#include <limits>

#include "base/check.h"

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

}  // namespace paddle::nn
