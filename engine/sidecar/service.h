// The life of a sidecar: one thread reads requests, one answers them in order, and one says every
// second that the process lives and what the request at work waits for.
#pragma once

#include "engine/sidecar/exchange.h"
#include "engine/sidecar/session.h"
#include "engine/sidecar/training.h"

namespace paddle::sidecar {

// Returns when the program has closed the channel. The request at work is interrupted then: the job
// sees this trainer as lost, unless it has left. `training` as Requests has it. kData: the channel
// is broken.
Status serve(Channel& channel, SharedMemory& memory, Session& session, Training* training);

}  // namespace paddle::sidecar
