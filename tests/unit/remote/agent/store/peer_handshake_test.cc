#include <sys/socket.h>

#include <gtest/gtest.h>

#include "base/text.h"
#include "remote/agent/store/peer_connection.h"
#include "tests/unit/remote/agent/store/peer_wire.h"

namespace paddle::agent {
namespace {

using test_wire::kLong;
using test_wire::within;

constexpr std::uint32_t kCaller = 7;

class PeerHandshake : public testing::Test {
 protected:
  PeerHandshake() {
    int pair[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    caller_ = UniqueFd(pair[0]);
    listener_ = UniqueFd(pair[1]);
  }
  // Sends `nonce` as a listener and returns the claim of a caller that hears it.
  PeerClaim claim_for(const Nonce& nonce) {
    EXPECT_TRUE(write_all(listener_.get(), nonce, within(kLong)));
    call_ = std::jthread([this] {
      keys_ = prove_to_listener(caller_.get(), key_, kCaller, "store", within(kLong));
    });
    PeerClaim claim{};
    EXPECT_TRUE(read_exact(listener_.get(), claim, within(kLong)));
    return claim;
  }
  // The outcome of the caller that claim_for() began.
  Result<PeerKeys> answer(ByteSpan bytes) {
    EXPECT_TRUE(write_all(listener_.get(), bytes, within(kLong)));
    call_.join();
    return *std::exchange(keys_, std::nullopt);
  }
  std::optional<ProvenCaller> check(const Nonce& nonce, const PeerClaim& claim) {
    return check_claim(token_, "store", nonce, claim);
  }

  const Secret token_ = *Secret::generate();
  const Secret key_ = peer_caller_key(token_, kCaller);
  const Nonce nonce_ = *random_nonce();
  UniqueFd caller_, listener_;
  std::optional<Result<PeerKeys>> keys_;
  std::jthread call_;
};

TEST_F(PeerHandshake, BothEndsHaveTheSameKeysAndEveryConnectionOthers) {
  std::string before;
  for (int i = 0; i < 2; ++i) {
    const Nonce nonce = *random_nonce();
    const auto proven = check(nonce, claim_for(nonce));
    ASSERT_TRUE(proven);
    EXPECT_EQ(proven->caller, kCaller);
    const auto keys = answer(proven->keys.listener_proof.reveal());
    ASSERT_TRUE(keys) << keys.error().message;
    const std::string seal = to_hex(keys->caller_seal.reveal());
    EXPECT_EQ(seal, to_hex(proven->keys.caller_seal.reveal()));
    EXPECT_NE(seal, to_hex(keys->listener_seal.reveal()));
    EXPECT_NE(std::exchange(before, seal), seal);
  }
}

TEST_F(PeerHandshake, HasTheGoldenBytesOfTheProtocol) {
  // Computed independently (Python hmac, hashlib) from PROTOCOL.md.
  const std::string caller_proof =
      "ccf16e6ac429176bffb840df0e3a37b289f295e41a1e6e55764a6c3eefde9e66";
  const std::string listener_proof =
      "8e8c55f928ab146d7986d5ec53ca0fc0ad3ab96decebed256f9d1ae90ca8f3ad";
  Nonce listener_nonce;
  listener_nonce.fill(std::byte{3});
  PeerClaim claim{std::byte{kCaller}};
  std::fill_n(claim.begin() + 4, kNonceBytes, std::byte{2});
  for (std::size_t i = 0; i < kSecretBytes; ++i) {
    const auto byte = std::stoul(caller_proof.substr(2 * i, 2), nullptr, 16);
    claim[claim.size() - kSecretBytes + i] = static_cast<std::byte>(byte);
  }
  const Secret token = *Secret::from_bytes(Bytes(kSecretBytes, std::byte{1}));
  const auto proven = check_claim(token, "store", listener_nonce, claim);
  ASSERT_TRUE(proven);
  EXPECT_EQ(proven->caller, kCaller);
  EXPECT_EQ(to_hex(proven->keys.listener_proof.reveal()), listener_proof);

  // A caller makes its own nonce.
  const PeerClaim made = claim_for(listener_nonce);
  EXPECT_EQ(to_hex(ByteSpan(made).first(4)), "07000000");
  PeerTranscript transcript{"store", kCaller, {}, listener_nonce};
  std::copy_n(made.begin() + 4, kNonceBytes, transcript.caller_nonce.begin());
  const PeerKeys keys = derive_peer_keys(key_, transcript);
  EXPECT_EQ(to_hex(ByteSpan(made).last(kSecretBytes)), to_hex(keys.caller_proof.reveal()));
  EXPECT_TRUE(answer(keys.listener_proof.reveal()));
}

TEST_F(PeerHandshake, ARecordedClaimIsNoProofForAnotherNonce) {
  const PeerClaim claim = claim_for(nonce_);
  EXPECT_TRUE(check(nonce_, claim));
  EXPECT_FALSE(check(*random_nonce(), claim));
  EXPECT_FALSE(answer(Nonce{}));
}

TEST_F(PeerHandshake, ARecordedAnswerIsNoProofForAnotherCall) {
  const Secret recorded = check(nonce_, claim_for(nonce_))->keys.listener_proof;
  EXPECT_TRUE(answer(recorded.reveal()));
  claim_for(nonce_);  // even to a listener that says its old nonce again
  EXPECT_FALSE(answer(recorded.reveal()));
}

TEST_F(PeerHandshake, AProofCannotBeReflected) {
  const PeerClaim claim = claim_for(nonce_);
  const auto reflected = answer(ByteSpan(claim).last(kSecretBytes));
  ASSERT_FALSE(reflected);
  EXPECT_EQ(reflected.error().code, Errc::kAuth);
}

TEST_F(PeerHandshake, AnotherTokenCallerOrServiceIsRefused) {
  const PeerClaim claim = claim_for(nonce_);
  EXPECT_FALSE(check_claim(*Secret::generate(), "store", nonce_, claim));
  EXPECT_FALSE(check_claim(token_, "probe", nonce_, claim));
  PeerClaim other = claim;
  other[0] ^= std::byte{1};
  EXPECT_FALSE(check(nonce_, other)) << "the proof of one caller for the number of another";
  EXPECT_FALSE(check_claim(key_, "store", nonce_, claim)) << "a caller's key is no token";
  EXPECT_FALSE(answer(Nonce{}));
}

TEST_F(PeerHandshake, EveryBitOfAClaimCounts) {
  const PeerClaim claim = claim_for(nonce_);
  for (std::size_t bit = 0; bit < 8 * claim.size(); ++bit) {
    PeerClaim changed = claim;
    changed[bit / 8] ^= std::byte{1} << (bit % 8);
    EXPECT_FALSE(check(nonce_, changed)) << bit;
  }
  EXPECT_FALSE(answer(Nonce{}));
}

}  // namespace
}  // namespace paddle::agent
