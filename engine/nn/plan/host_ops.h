// Execution of one op by the kernels of the CPU: the definition of what each op computes.
#pragma once

#include "engine/nn/plan/host_frame.h"

namespace paddle::nn {

void execute(const Op& op, HostFrame& frame);

// Ops on tables, of which execute() calls the right one.
void compute(const op::Gather& op, HostFrame& frame);
void compute(const op::GatherBackward& op, HostFrame& frame);
void compute(const op::Pool& op, HostFrame& frame);
void compute(const op::PoolBackward& op, HostFrame& frame);

}  // namespace paddle::nn
