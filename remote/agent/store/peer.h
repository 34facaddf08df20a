// Connections between nodes on the data plane. The listener receives a token over its launcher's
// channel, a caller receives its own key; each proves its key before anything else is read:
// proto/PROTOCOL.md, "Between nodes".
#pragma once

#include <functional>
#include <optional>
#include <string_view>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/result.h"
#include "proto/agent.pb.h"
#include "remote/agent/store/peer_connection.h"

namespace paddle::agent {

struct PeerService {
  std::string_view name;      // the same at both ends
  Duration time_max{};        // how long the listener runs
  Duration connection_max{};  // how long a connection may be served; then it is closed
  int folder = -1;            // passed to `serve`; all other descriptors of the agent are closed
  std::function<void(const PeerConnection& connection, int folder)> serve;
};

// A child process that accepts callers; it ends with this object, with the agent, or after
// PeerService::time_max.
class PeerListener {
 public:
  PeerListener() = default;
  PeerListener(const PeerListener&) = delete;
  PeerListener& operator=(const PeerListener&) = delete;
  ~PeerListener() { stop(); }

  // Replaces an earlier listener. `socket` is listening already.
  Status start(UniqueFd socket, ByteSpan token, const PeerService& service);
  // Returns once the port is free again.
  void stop();

 private:
  UniqueFd process_;  // a pidfd
};

// A listening socket. kUsage for an invalid address, kResource when the port is taken.
Result<UniqueFd> listen_for_peers(const wire::agent::ProbeTarget& at);

struct PeerCall {
  std::optional<PeerConnection> connection;  // PROBE_REACHED only
  wire::agent::ProbeOutcome outcome = wire::agent::PROBE_REACHED;
  std::string detail;
};
// Connects and proves the caller's key, within 6 seconds. Network failures are outcomes in the
// result; an error means an invalid request.
Result<PeerCall> call_peer(const wire::agent::ProbeTarget& target, ByteSpan caller_key,
                           std::string_view service);

}  // namespace paddle::agent
