// Keys that authenticate connections: between the processes of a job, and between two nodes
// (PROTOCOL.md).
#pragma once

#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "base/proof.h"
#include "proto/frame.h"

namespace paddle {

// The keys of a job's processes, one for each pair that communicates. All are derived from the
// job's secret (PROTOCOL.md, "Keys"). A process receives only its own keys, so it cannot
// impersonate another.
class JobKeys {
 public:
  // Can derive the key of every pair.
  static JobKeys of_job(const Secret& secret);
  // Reads a key file: the 32 bytes of the job's secret, or the result of encode_keys(). kAuth: it
  // is anything else, or another user may read it.
  static Result<JobKeys> read(const std::string& key_file);
  static Result<JobKeys> decode(ByteSpan file);

  // The key of a client and the server that it calls. kAuth if this process is neither of them.
  Result<Secret> pair(NodeId client, NodeId server) const;

 private:
  struct OneProcess {
    NodeId self;
    // By server; a server's own key yields those of all clients.
    std::vector<std::pair<NodeId, Secret>> keys;
  };
  std::optional<Secret> job_;
  std::optional<OneProcess> process_;
};

// The key file of a process that serves, or calls `servers`, or both.
Bytes encode_keys(const Secret& job, NodeId self, bool serves, std::span<const NodeId> servers);

// The keys of a connection between two nodes (PROTOCOL.md, "Between nodes"). All are derived from
// the token of the listener; a caller receives only its own key, so it cannot impersonate another
// caller or the listener.

// The key of one caller, derived from the listener's token.
Secret peer_caller_key(const Secret& token, std::uint32_t caller);

// The values that both ends of a connection agree on.
struct PeerTranscript {
  std::string_view service;
  std::uint32_t caller = 0;
  Nonce caller_nonce{};
  Nonce listener_nonce{};
};

// The keys of one connection. The nonces are fresh, so no other connection has the same keys.
struct PeerKeys {
  Secret caller_proof, listener_proof;  // proofs, sent to the other end
  Secret caller_seal, listener_seal;    // keys of the records that each side sends
};
PeerKeys derive_peer_keys(const Secret& caller_key, const PeerTranscript& transcript);

}  // namespace paddle
