// A Link to a protocol core in the same process: `paddle train --local` and tests.
#pragma once

#include "engine/net/link.h"

namespace paddle::net {

// send() calls the handler on the calling thread and queues its replies for receive(). receive()
// never blocks: with nothing queued it ticks the handler once, then fails with kUnreachable. Frames
// carry `self` as their sender. Destroying the link disconnects it.
std::unique_ptr<Link> make_local_link(std::shared_ptr<FrameHandler> handler, NodeId self);

}  // namespace paddle::net
