// The card that tests run on.
#pragma once

#include "engine/gpu/device.h"
#include "engine/math/card_kernel.h"

namespace paddle::test {

// Opened by main, and never closed.
device::Device& card();

// Runs it to its end; a failure of the card fails the test.
void run_on_card(const kernels::device::Kernel& kernel);

}  // namespace paddle::test
