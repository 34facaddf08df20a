// The agent's loop that answers the requests of its controller.
#pragma once

#include "base/clock.h"
#include "base/result.h"
#include "remote/agent/node/root.h"

namespace paddle::agent {

// Answers the requests at `input` until it closes, until no bytes have arrived for `silence_max`,
// or after a teardown. Returns errors of the channel only. Both descriptors are non-blocking.
Status serve(const Root& root, int input, int output, Duration silence_max);

}  // namespace paddle::agent
