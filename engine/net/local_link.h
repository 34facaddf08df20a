// A Link to a protocol core in the same process: `paddle train --local` and tests.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "engine/net/link.h"

namespace paddle::net {

// send() calls the handler on the calling thread; its replies wait for receive(), which never
// blocks: with nothing queued it ticks the handler once and then fails (kUnreachable). Frames carry
// `self` as their sender. Destroying the link is its disconnect.
std::unique_ptr<Link> make_local_link(std::shared_ptr<FrameHandler> handler, NodeId self);

// Several peers of one handler; link i has PeerId i + 1 and gets the replies meant for it, whoever
// caused them. All of them belong to one thread.
std::vector<std::unique_ptr<Link>> make_local_links(std::shared_ptr<FrameHandler> handler,
                                                    std::span<const NodeId> selves);

}  // namespace paddle::net
