// The proofs by which a listener and a caller know each other before anything else is read. The
// store and the probe use them alike: PROTOCOL.md, "Between nodes".
#pragma once

#include <array>
#include <optional>

#include "base/clock.h"
#include "base/fd.h"
#include "proto/keys.h"

namespace paddle::agent {

// One whose ends have proved their keys.
struct PeerConnection {
  UniqueFd fd;  // non-blocking
  PeerKeys keys;
};

Result<PeerNonce> random_peer_nonce();

// The first bytes of a caller: its number, nonce and proof.
using PeerClaim = std::array<std::byte, 4 + kPeerNonceBytes + kSecretBytes>;

struct ProvenCaller {
  std::uint32_t caller = 0;
  PeerKeys keys;
};
// The listener's side, after it has sent its nonce. Nothing unless the claim proves the key of the
// caller that it names; the answer to one that does is keys.listener_proof.
std::optional<ProvenCaller> check_claim(const Secret& token, std::string_view service,
                                        const PeerNonce& listener_nonce, const PeerClaim& claim);

// The caller's side, whole. kAuth when the listener has another key.
Result<PeerKeys> prove_to_listener(int fd, const Secret& caller_key, std::uint32_t caller,
                                   std::string_view service, TimePoint deadline);

}  // namespace paddle::agent
