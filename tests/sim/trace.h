// Text of a simulated job's events, for a person who repeats a seed with PADDLE_SIM_TRACE=1.
#pragma once

#include "tests/sim/network.h"

namespace paddle::sim {

bool traces();
// One line to stderr. `connection` of a frame or of the end of a connection.
void trace(const Event& event, const Connection* connection);
void trace(TimePoint now, const std::string& what);

}  // namespace paddle::sim
