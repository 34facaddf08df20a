// Nodes that call each other on the data plane. Both got a token over their launchers' channels,
// and each proves it before anything else is read: proto/PROTOCOL.md, "Between nodes".
#pragma once

#include <functional>
#include <string_view>

#include "base/bytes.h"
#include "base/fd.h"
#include "base/result.h"
#include "proto/agent.pb.h"

namespace paddle::agent {

constexpr std::size_t kPeerTokenBytes = 32;

// A process of its own that hears callers; it ends with this object, with the agent, or when its
// time is over.
class PeerListener {
 public:
  // `fd`: a proven caller, non-blocking; at most `at_once` are served at a time, each on a thread.
  using Serve = std::function<void(int fd, int folder)>;
  struct Service {
    std::string_view name;  // the same at both ends
    Duration time_max{};
    unsigned at_once = 1;
    int folder = -1;  // a descriptor for `serve`; everything else of the agent's is closed
    Serve serve;
  };

  PeerListener() = default;
  PeerListener(const PeerListener&) = delete;
  PeerListener& operator=(const PeerListener&) = delete;
  ~PeerListener() { stop(); }

  // In place of an earlier one. `socket` listens already.
  Status start(UniqueFd socket, ByteSpan token, const Service& service);
  // Returns when the port is free again.
  void stop();

 private:
  UniqueFd process_;  // a pidfd
};

// A listening socket. kUsage for an address or a token that makes no sense, kResource when the port
// is not to be had.
Result<UniqueFd> listen_for_peers(const wire::agent::ProbeTarget& at, ByteSpan token);

struct PeerCall {
  UniqueFd fd;  // non-blocking; PROBE_REACHED only
  wire::agent::ProbeOutcome outcome = wire::agent::PROBE_REACHED;
  std::string detail;
};
// Connects and proves, within 6 seconds. An error is a request that makes no sense.
Result<PeerCall> call_peer(const wire::agent::ProbeTarget& target, ByteSpan token,
                           std::string_view service);

}  // namespace paddle::agent
