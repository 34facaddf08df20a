// Whether the nodes reach each other on the data plane, and how fast: proto/PROTOCOL.md, "Probe".
#pragma once

#include "remote/agent/peer/peer.h"

namespace paddle::agent {

// From here on `listener` answers probes, one at a time. kResource when the port is not to be had.
Status answer_probes(PeerListener& listener, const wire::agent::ProbeTarget& at, ByteSpan token);

// What stands in the way is an outcome; an error is a request that makes no sense.
Result<wire::agent::ProbeReply> probe(const wire::agent::ProbeTarget& target, ByteSpan token);

}  // namespace paddle::agent
