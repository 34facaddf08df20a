// Execution of one op by the kernels of the CPU: the definition of what each op computes.
#pragma once

#include "base/check.h"
#include "engine/nn/plan/host_frame.h"

namespace paddle::nn {

// Kernels that take no stride want rows side by side.
inline void check_packed(const Region& region, std::size_t width) {
  PADDLE_CHECK(region.stride == width);
}

void execute(const Op& op, HostFrame& frame);

// The parts of execute() that have files of their own. Ops on tables:
void compute(const op::Gather& op, HostFrame& frame);
void compute(const op::GatherBackward& op, HostFrame& frame);
void compute(const op::Pool& op, HostFrame& frame);
void compute(const op::PoolBackward& op, HostFrame& frame);
void compute(const op::SampledCost& op, HostFrame& frame);
void compute(const op::SampledCostBackward& op, HostFrame& frame);
// Ops on the vectors of one row.
void compute(const op::LayerNorm& op, HostFrame& frame);
void compute(const op::LayerNormBackward& op, HostFrame& frame);
void compute(const op::PairSum& op, HostFrame& frame);
void compute(const op::PairSumBackward& op, HostFrame& frame);
void compute(const op::CosineSimilarity& op, HostFrame& frame);
void compute(const op::CosineSimilarityBackward& op, HostFrame& frame);

}  // namespace paddle::nn
