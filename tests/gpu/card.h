// The card that tests run on, and its other users.
#pragma once

#include "engine/gpu/device.h"
#include "engine/math/card_kernel.h"
#include "tests/gpu/shared_memory.h"

namespace paddle::test {

// REQUIRES: open_card() has succeeded.
device::Device& card();
// Opens the card, and opens it again if a test broke it. A broken device is not closed, because its
// card may never end its work.
Status open_card();

// Runs it to its end. A failure of the card ends the test with an exception.
void run_on_card(const kernels::device::Kernel& kernel);

// Two sets of cards: those of this machine (cuda_card.cc), and one of the host's memory
// (fake_card.cc), with which every test but those of time runs where there is no card.
device::Driver& card_driver();
SharedSource shared_source();

}  // namespace paddle::test
