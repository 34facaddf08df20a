// Names of kernels, for messages.
#pragma once

#include <string>

#include "engine/math/card_kernel.h"

namespace paddle::device {

// The kernel's type as the sources name it: "GatherBackward", "ColumnSums<SlopeTerms>".
std::string name_of(const kernels::device::Kernel& kernel);

}  // namespace paddle::device
