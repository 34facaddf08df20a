#include "remote/agent/peer/handshake.h"

#include <sys/random.h>

#include <algorithm>

namespace paddle::agent {

Result<PeerNonce> random_peer_nonce() {
  PeerNonce nonce;
  if (::getrandom(nonce.data(), nonce.size(), 0) != static_cast<ssize_t>(nonce.size()))
    return system_error(Errc::kResource, "getrandom");
  return nonce;
}

std::optional<ProvenCaller> check_claim(const Secret& token, std::string_view service,
                                        const PeerNonce& listener_nonce, const PeerClaim& claim) {
  const auto caller = load_le<std::uint32_t>(claim.data());
  PeerTranscript transcript{service, caller, {}, listener_nonce};
  std::copy_n(claim.begin() + sizeof caller, kPeerNonceBytes, transcript.caller_nonce.begin());
  const PeerKeys keys = derive_peer_keys(peer_caller_key(token, caller), transcript);
  const ByteSpan proof = ByteSpan(claim).last(kSecretBytes);
  if (!equal_constant_time(proof, keys.caller_proof.reveal())) return std::nullopt;
  return ProvenCaller{caller, keys};
}

Result<PeerKeys> prove_to_listener(int fd, const Secret& caller_key, std::uint32_t caller,
                                   std::string_view service, TimePoint deadline) {
  PeerTranscript transcript{service, caller, {}, {}};
  PADDLE_TRY(transcript.caller_nonce, random_peer_nonce());
  PADDLE_TRY_STATUS(read_exact(fd, transcript.listener_nonce, deadline));
  const PeerKeys keys = derive_peer_keys(caller_key, transcript);
  PeerClaim claim;
  store_le(claim.data(), caller);
  std::ranges::copy(transcript.caller_nonce, claim.begin() + sizeof caller);
  std::ranges::copy(keys.caller_proof.reveal(), claim.end() - kSecretBytes);
  PADDLE_TRY_STATUS(write_all(fd, claim, deadline));
  std::array<std::byte, kSecretBytes> answer;
  PADDLE_TRY_STATUS(read_exact(fd, answer, deadline));
  if (equal_constant_time(answer, keys.listener_proof.reveal())) return keys;
  return Error{Errc::kAuth, "its answer is not the right one", ""};
}

}  // namespace paddle::agent
