// The keys of those that talk to each other: of a job's processes, and of two nodes (PROTOCOL.md).
#pragma once

#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "base/secret.h"
#include "proto/frame.h"

namespace paddle {

// The keys of a job's processes, one for each pair that talks. All are derived from the job's
// secret (PROTOCOL.md, "Keys"), and a process is given its own only: no other can pass for it.
class JobKeys {
 public:
  // Of every pair.
  static JobKeys of_job(const Secret& secret);
  // A key file: 32 bytes are the job's secret, anything else what encode_keys() made. kAuth.
  static Result<JobKeys> read(const std::string& key_file);
  static Result<JobKeys> decode(ByteSpan file);

  // The key of a client and the server that it calls. kAuth when this process is neither of them.
  Result<Secret> pair(NodeId client, NodeId server) const;

 private:
  struct OneProcess {
    NodeId self;
    std::vector<std::pair<NodeId, Secret>> keys;  // by server; one's own serves all clients
  };
  std::optional<Secret> job_;
  std::optional<OneProcess> process_;
};

// The key file of a process that serves, or calls `servers`, or both.
Bytes encode_keys(const Secret& job, NodeId self, bool serves, std::span<const NodeId> servers);

// The keys of a connection between two nodes (PROTOCOL.md, "Between nodes"). All are derived from
// the token of the listener; a caller is given its own key only, so it can pass for no other
// caller, nor for the listener.

constexpr std::size_t kPeerNonceBytes = 32;
using PeerNonce = std::array<std::byte, kPeerNonceBytes>;

// The key that one caller of a listener is given.
Secret peer_caller_key(const Secret& token, std::uint32_t caller);

// The facts that both ends agree on.
struct PeerTranscript {
  std::string_view service;
  std::uint32_t caller = 0;
  PeerNonce caller_nonce{};
  PeerNonce listener_nonce{};
};

// Of one connection: the nonces are fresh, so none of them serves another.
struct PeerKeys {
  Secret caller_proof, listener_proof;  // shown to the other end
  Secret caller_seal, listener_seal;    // of the records that this side sends
};
PeerKeys derive_peer_keys(const Secret& caller_key, const PeerTranscript& transcript);

}  // namespace paddle
