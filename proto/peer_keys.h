// The keys of a connection between two nodes (PROTOCOL.md, "Between nodes"). All are derived from
// the token of the listener; a caller is given its own key only, so it can pass for no other
// caller, nor for the listener.
#pragma once

#include <array>

#include "base/secret.h"

namespace paddle {

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
