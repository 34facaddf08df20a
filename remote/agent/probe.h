// Whether the nodes reach each other on the data plane, and how fast: proto/PROTOCOL.md, "Probe".
#pragma once

#include "engine/base/bytes.h"
#include "engine/base/fd.h"
#include "engine/base/result.h"
#include "proto/agent.pb.h"

namespace paddle::agent {

constexpr std::size_t kProbeTokenBytes = 32;

// A process of its own that answers probes; it ends with this object, with the agent, or after
// 10 minutes.
class ProbeListener {
 public:
  ProbeListener() = default;
  ProbeListener(const ProbeListener&) = delete;
  ProbeListener& operator=(const ProbeListener&) = delete;
  ~ProbeListener() { stop(); }

  // In place of an earlier one. kResource when the port is not to be had.
  Status start(const wire::agent::ProbeTarget& at, ByteSpan token);
  // Returns when the port is free again.
  void stop();

 private:
  UniqueFd process_;  // a pidfd
};

// What stands in the way is an outcome; an error is a request that makes no sense.
Result<wire::agent::ProbeReply> probe(const wire::agent::ProbeTarget& target, ByteSpan token);

}  // namespace paddle::agent
