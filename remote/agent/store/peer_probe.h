// Reachability and speed between two nodes on the data plane: proto/PROTOCOL.md, "Probe".
#pragma once

#include "remote/agent/store/peer.h"

namespace paddle::agent {

// Makes `listener` answer probes. kResource when the port is taken.
Status answer_probes(PeerListener& listener, const wire::agent::ProbeTarget& at, ByteSpan token);

// Probes a listener. Network failures are outcomes in the reply; an error means an invalid request.
Result<wire::agent::ProbeReply> probe(const wire::agent::ProbeTarget& target, ByteSpan caller_key);

}  // namespace paddle::agent
