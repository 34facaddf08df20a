// The agent's loop over the requests of its controller.
#pragma once

#include "base/clock.h"
#include "base/result.h"
#include "remote/agent/root/root.h"

namespace paddle::agent {

// Answers the requests at `input` until it closes, until nothing has come for `silence_max`, or
// after a teardown. An error is one of the channel. Both descriptors are non-blocking.
Status serve(const Root& root, int input, int output, Duration silence_max);

}  // namespace paddle::agent
