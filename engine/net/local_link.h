// A Link to a protocol core in the same process: `paddle train --local` and tests.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "engine/net/link.h"

namespace paddle::net {

// send() calls the handler on the calling thread and queues its replies for receive(). receive()
// never blocks: with nothing queued it ticks the handler once, then fails with kUnreachable. Frames
// carry `self` as their sender. Destroying the link disconnects it.
std::unique_ptr<Link> make_local_link(std::shared_ptr<FrameHandler> handler, NodeId self);

// Several peers of one handler. Link i has PeerId i + 1 and receives every reply addressed to it,
// whichever peer caused it. All links belong to one thread.
std::vector<std::unique_ptr<Link>> make_local_links(std::shared_ptr<FrameHandler> handler,
                                                    std::span<const NodeId> selves);

}  // namespace paddle::net
