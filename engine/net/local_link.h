// A Link to a protocol core in the same process, for `paddle train --local` and tests.
#pragma once

#include "engine/net/link.h"

namespace paddle::net {

// send() calls the handler on the calling thread and queues its replies for receive(). receive()
// never blocks: if no reply is queued, it calls the handler's on_tick() once, and fails with
// kUnreachable if there is still none. Frames carry `self` as their sender. Destroying the link
// disconnects it.
std::unique_ptr<Link> make_local_link(std::shared_ptr<FrameHandler> handler, NodeId self);

}  // namespace paddle::net
