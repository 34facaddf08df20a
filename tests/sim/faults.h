// Schedules of faults, each a pure function of its seed.
#pragma once

#include "tests/sim/options.h"

namespace paddle::sim {

// One to four faults of these kinds, at times while a short job runs, not before
// `from`.
std::vector<Fault> random_faults(std::uint64_t seed, std::uint32_t trainers, std::uint32_t pservers,
                                 std::initializer_list<FaultKind> kinds, Duration from = {});

}  // namespace paddle::sim
