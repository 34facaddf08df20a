// Connections between nodes on the data plane. Both ends got a token over their launchers' channels
// and prove it before anything else is read: proto/PROTOCOL.md, "Between nodes".
#pragma once

#include <functional>
#include <string_view>

#include "base/bytes.h"
#include "base/fd.h"
#include "base/result.h"
#include "proto/agent.pb.h"

namespace paddle::agent {

constexpr std::size_t kPeerTokenBytes = 32;

// A child process that accepts callers; it ends with this object, with the agent, or after
// Service::time_max.
class PeerListener {
 public:
  // `fd` is the non-blocking socket of a caller that has proved the token. At most `at_once`
  // callers are served at a time, each on a thread.
  using Serve = std::function<void(int fd, int folder)>;
  struct Service {
    std::string_view name;  // the same at both ends
    Duration time_max{};
    unsigned at_once = 1;
    int folder = -1;  // a descriptor for `serve`; the agent's others are closed
    Serve serve;
  };

  PeerListener() = default;
  PeerListener(const PeerListener&) = delete;
  PeerListener& operator=(const PeerListener&) = delete;
  ~PeerListener() { stop(); }

  // Replaces an earlier listener. `socket` is listening already.
  Status start(UniqueFd socket, ByteSpan token, const Service& service);
  // Returns once the port is free again.
  void stop();

 private:
  UniqueFd process_;  // a pidfd
};

// A listening socket. kUsage for an invalid address or token, kResource when the port is taken.
Result<UniqueFd> listen_for_peers(const wire::agent::ProbeTarget& at, ByteSpan token);

struct PeerCall {
  UniqueFd fd;  // non-blocking; PROBE_REACHED only
  wire::agent::ProbeOutcome outcome = wire::agent::PROBE_REACHED;
  std::string detail;
};
// Connects and proves the token, within 6 seconds. Network failures are outcomes; an error is an
// invalid request.
Result<PeerCall> call_peer(const wire::agent::ProbeTarget& target, ByteSpan token,
                           std::string_view service);

}  // namespace paddle::agent
