#include <set>

#include <gtest/gtest.h>

#include "base/text.h"
#include "proto/keys.h"

namespace paddle {
namespace {

Secret token_of(int value) {
  return *Secret::from_bytes(Bytes(kSecretBytes, static_cast<std::byte>(value)));
}

Nonce nonce_of(int value) {
  Nonce nonce;
  nonce.fill(static_cast<std::byte>(value));
  return nonce;
}

std::vector<std::string> all_of(const PeerKeys& keys) {
  std::vector<std::string> all;
  for (const Secret* const key :
       {&keys.caller_proof, &keys.listener_proof, &keys.caller_seal, &keys.listener_seal})
    all.push_back(to_hex(key->reveal()));
  return all;
}

// Computed independently (Python hmac, hashlib) from PROTOCOL.md.
TEST(PeerKeys, HaveTheGoldenBytesOfTheProtocol) {
  const Secret key = peer_caller_key(token_of(1), 7);
  EXPECT_EQ(to_hex(key.reveal()),
            "16eaf4b19f37204575089c3457bec44fc4791f24a0594aa9e2d464b3ac0d3735");
  const std::vector<std::string> expected{
      "ccf16e6ac429176bffb840df0e3a37b289f295e41a1e6e55764a6c3eefde9e66",
      "8e8c55f928ab146d7986d5ec53ca0fc0ad3ab96decebed256f9d1ae90ca8f3ad",
      "4a6ee3466108208be6b9e1cab619b695cdc6056613fe0e7133ed569f2d21f9f6",
      "cc6e44964949d406d6718f3c97d4f5caaf4a61eba661f6cf0bff11a0e0a9c5c5"};
  EXPECT_EQ(all_of(derive_peer_keys(key, {"store", 7, nonce_of(2), nonce_of(3)})), expected);
}

TEST(PeerKeys, EveryFactAndEverySideMakesOthers) {
  const Secret key = peer_caller_key(token_of(1), 7);
  const PeerTranscript base{"store", 7, nonce_of(2), nonce_of(3)};
  std::vector<std::pair<Secret, PeerTranscript>> cases(7,
                                                       {key, base});  // the last one stays as it is
  cases[0].first = peer_caller_key(token_of(2), 7);
  cases[1].first = peer_caller_key(token_of(1), 8);
  cases[2].second.service = "probe";
  cases[3].second.caller = 8;
  cases[4].second.caller_nonce = nonce_of(4);
  cases[5].second.listener_nonce = nonce_of(4);
  std::set<std::string> seen;
  for (const auto& [one, transcript] : cases) {
    for (const std::string& derived : all_of(derive_peer_keys(one, transcript)))
      EXPECT_TRUE(seen.insert(derived).second);
  }
}

}  // namespace
}  // namespace paddle
