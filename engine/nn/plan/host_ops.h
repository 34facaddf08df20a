// Execution of one op by the kernels of the CPU: the definition of what each op computes.
#pragma once

#include "engine/nn/plan/host_frame.h"

namespace paddle::nn {

void execute(const Op& op, HostFrame& frame);

}  // namespace paddle::nn
