#include "proto/peer_keys.h"

#include "base/hmac.h"

namespace paddle {

Secret peer_caller_key(const Secret& token, std::uint32_t caller) {
  std::array<std::byte, sizeof caller> id;
  store_le(id.data(), caller);
  return derive_secret(token, "paddlectl peer 1 caller key", id);
}

PeerKeys derive_peer_keys(const Secret& caller_key, const PeerTranscript& transcript) {
  Bytes facts(sizeof transcript.caller);
  store_le(facts.data(), transcript.caller);
  append_bytes<std::byte>(facts, transcript.caller_nonce);
  append_bytes<std::byte>(facts, transcript.listener_nonce);
  append_bytes<std::byte>(facts, as_bytes(transcript.service));
  return {derive_secret(caller_key, "paddlectl peer 1 caller proof", facts),
          derive_secret(caller_key, "paddlectl peer 1 listener proof", facts),
          derive_secret(caller_key, "paddlectl peer 1 caller seal", facts),
          derive_secret(caller_key, "paddlectl peer 1 listener seal", facts)};
}

}  // namespace paddle
