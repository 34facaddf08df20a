#include "engine/net/session.h"

#include "base/text.h"
#include "tests/unit/engine/net/net_fixture.h"

namespace paddle::net {
namespace {

constexpr NodeId kTrainer7{Role::kTrainer, 7};
constexpr NodeId kPserver3{Role::kPserver, 3};
const TimePoint kStart{std::chrono::seconds(1000)};

Nonce nonce_from(unsigned first) {
  Nonce nonce;
  for (unsigned i = 0; i < nonce.size(); ++i) nonce[i] = static_cast<std::byte>(first + i);
  return nonce;
}

Secret pair_key(std::uint8_t secret) {
  return *keys_of(secret).pair(kTrainer7, kPserver3);
}
ServerSession server(std::uint8_t secret = 1, unsigned nonce = 100) {
  static const JobKeys kKeys[] = {keys_of(0), keys_of(1), keys_of(2)};
  return {{kKeys[secret], kPserver3, kJob, 9}, nonce_from(nonce), kStart};
}
ClientSession client(std::uint8_t secret = 1, std::uint64_t job = kJob) {
  return {{pair_key(secret), kTrainer7, 5, kPserver3, job}, nonce_from(0)};
}

// The client's PROOF for this server, which has seen its HELLO.
Frame proof_for(ServerSession& to, ClientSession& from) {
  return **from.on_frame(*to.on_frame(kStart, from.hello()));
}

bool is_refusal(const Result<Frame>& frame, Refusal why) {
  return frame && frame->header.type == kRefused && frame->tail.size() == 1 &&
         frame->tail[0] == static_cast<std::byte>(why);
}

std::string wire(const Frame& frame) {
  return to_hex(encode_header(frame)) + frame.head + to_hex(frame.tail);
}

TEST(Session, HandshakeHasTheGoldenBytesOfTheProtocol) {
  // Computed independently (Python hmac, hashlib) from PROTOCOL.md.
  const std::string client_proof =
      "d19d2fef68493ae1841b9e6ed4ec6dbe0bd3b438ef01d65bfa40f37fa35aba65";
  const std::string server_proof =
      "16db89a5c4c2741492d26e55cc9bdeb6981147268763e78e74dd57c387204046";
  const std::string zeros(48, '0');
  auto c = client();
  auto s = server();
  EXPECT_EQ(wire(c.hello()),
            "50444c310101000020000000c42c91f58877665544332211070000010500000000000000" + zeros +
                "4e79dd46000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f");
  const auto challenge = s.on_frame(kStart, c.hello());
  ASSERT_TRUE(challenge);
  EXPECT_EQ(wire(*challenge),
            "50444c31010200004000000083516b8f8877665544332211030000020000000009000000" + zeros +
                "23b4963d6465666768696a6b6c6d6e6f707172737475767778797a7b7c7d7e7f80818283" +
                server_proof);
  const auto proof = c.on_frame(*challenge);
  ASSERT_TRUE(proof && *proof);
  EXPECT_EQ(wire(**proof),
            "50444c310103000020000000761f2ead8877665544332211070000010500000000000000" + zeros +
                "dd928111" + client_proof);
  EXPECT_FALSE(s.proven());
  const auto accepted = s.on_frame(kStart, **proof);
  ASSERT_TRUE(accepted);
  EXPECT_EQ(wire(*accepted),
            "50444c310104000000000000910b48138877665544332211030000020000000009000000" + zeros +
                "00000000");
  EXPECT_TRUE(s.proven());
  EXPECT_FALSE(c.established());
  const auto done = c.on_frame(*accepted);
  ASSERT_TRUE(done);
  EXPECT_FALSE(*done);
  EXPECT_TRUE(c.established());
  EXPECT_EQ(s.transcript().client, kTrainer7);
  EXPECT_EQ(c.transcript().server, kPserver3);
  EXPECT_EQ(c.transcript().server_generation, 9U);
}

TEST(Session, EveryFieldOfTheTranscriptChangesTheProof) {
  const Transcript base{kJob, kTrainer7, 5, kPserver3, 9, nonce_from(0), nonce_from(100)};
  const Proof proof = make_proof(secret_of(1), Side::kClient, base);
  EXPECT_NE(proof, make_proof(secret_of(1), Side::kServer, base));
  EXPECT_NE(proof, make_proof(secret_of(2), Side::kClient, base));
  std::vector<Transcript> others(9, base);
  others[0].job_tag ^= 1;
  others[1].client.index = 8;
  others[2].client.role = Role::kController;
  others[3].incarnation = 6;
  others[4].server.index = 4;
  others[5].server.role = Role::kAgent;
  others[6].server_generation = 10;
  others[7].client_nonce[31] ^= std::byte{1};
  others[8].server_nonce[0] ^= std::byte{1};
  for (std::size_t i = 0; i < others.size(); ++i) {
    EXPECT_NE(proof, make_proof(secret_of(1), Side::kClient, others[i])) << i;
  }
}

TEST(Session, EachSideFindsAWrongSecretAlone) {
  auto s = server(1);
  auto wrong = client(2);
  const auto challenge = s.on_frame(kStart, wrong.hello());
  const auto seen = wrong.on_frame(*challenge);
  ASSERT_FALSE(seen);
  EXPECT_EQ(seen.error().code, Errc::kAuth);
  // A client that goes on regardless is refused by the server.
  Frame forced = wrong.hello();
  forced.header.type = kProof;
  const Proof made = make_proof(pair_key(2), Side::kClient, s.transcript());
  forced.tail.assign(made.begin(), made.end());
  EXPECT_TRUE(is_refusal(s.on_frame(kStart, forced), Refusal::kBadProof));
  EXPECT_FALSE(s.proven());
  EXPECT_FALSE(s.on_frame(kStart, forced));  // closed for good
}

TEST(Session, ARecordedHandshakeCannotBeReplayed) {
  auto first = server(1, 100);
  auto honest = client();
  const Frame hello = honest.hello();
  const Frame challenge = *first.on_frame(kStart, hello);
  const Frame proof = **honest.on_frame(challenge);
  ASSERT_TRUE(first.on_frame(kStart, proof));
  ASSERT_TRUE(first.proven());
  auto second = server(1, 101);  // a new connection has a new nonce
  ASSERT_TRUE(second.on_frame(kStart, hello));
  EXPECT_TRUE(is_refusal(second.on_frame(kStart, proof), Refusal::kBadProof));
  EXPECT_FALSE(second.proven());
  // The server's half does not convince a client with another nonce either.
  ClientSession later({pair_key(1), kTrainer7, 5, kPserver3, kJob}, nonce_from(1));
  EXPECT_FALSE(later.on_frame(challenge));
}

TEST(Session, AProofCannotBeReflected) {
  auto s = server();
  auto c = client();
  const Frame challenge = *s.on_frame(kStart, c.hello());
  Frame reflected = c.hello();
  reflected.header.type = kProof;
  reflected.tail.assign(challenge.tail.begin() + kNonceBytes, challenge.tail.end());
  EXPECT_TRUE(is_refusal(s.on_frame(kStart, reflected), Refusal::kBadProof));
  // A server does not talk to itself, a client neither.
  auto self = server();
  Frame own = client().hello();
  own.header.sender = kPserver3;
  EXPECT_TRUE(is_refusal(self.on_frame(kStart, own), Refusal::kMalformed));
  Frame mirror = challenge;
  mirror.header.sender = kTrainer7;
  auto fresh = client();
  EXPECT_FALSE(fresh.on_frame(mirror));
}

TEST(Session, AnotherIdentityCannotUseAProof) {
  auto honest_server = server();
  auto honest = client();
  const Frame proof = proof_for(honest_server, honest);
  for (const NodeId thief : {NodeId{Role::kTrainer, 8}, NodeId{Role::kController, 7}}) {
    auto s = server();  // the same nonce: only the identity differs
    Frame hello = client().hello();
    hello.header.sender = thief;
    ASSERT_TRUE(s.on_frame(kStart, hello));
    EXPECT_TRUE(is_refusal(s.on_frame(kStart, proof), Refusal::kBadProof));
  }
  auto zombie = server();
  Frame hello = client().hello();
  hello.header.incarnation = 6;
  ASSERT_TRUE(zombie.on_frame(kStart, hello));
  EXPECT_TRUE(is_refusal(zombie.on_frame(kStart, proof), Refusal::kBadProof));
  auto changed = server();
  auto victim = client();
  Frame challenge = *changed.on_frame(kStart, victim.hello());
  challenge.header.sender.index = 4;
  EXPECT_FALSE(victim.on_frame(challenge));
}

TEST(Session, AnotherJobIsRefusedWithoutAChallenge) {
  auto s = server();
  auto c = client(1, kJob + 1);
  const auto answer = s.on_frame(kStart, c.hello());
  ASSERT_TRUE(is_refusal(answer, Refusal::kOtherJob));
  const auto told = c.on_frame(*answer);
  ASSERT_FALSE(told);
  EXPECT_EQ(told.error().code, Errc::kAuth);
  EXPECT_NE(told.error().message.find("another job"), std::string::npos);
}

TEST(Session, ARefusalTellsNothingToAStranger) {
  auto other_job = server();
  auto wrong_key = server(1);
  auto stranger = client(2);
  Frame forged = stranger.hello();
  ASSERT_TRUE(wrong_key.on_frame(kStart, forged));
  forged.header.type = kProof;
  Frame empty = stranger.hello();
  empty.tail.clear();
  auto malformed = server();
  for (const auto& refusal :
       {other_job.on_frame(kStart, client(1, kJob + 1).hello()), wrong_key.on_frame(kStart, forged),
        malformed.on_frame(kStart, empty)}) {
    ASSERT_TRUE(refusal && refusal->header.type == kRefused);
    FrameHeader plain;
    plain.type = kRefused;
    EXPECT_EQ(refusal->header, plain);
  }
}

TEST(Session, WrongSizesAreRefused) {
  for (const std::size_t bytes : {0, 31, 33, 64}) {
    auto s = server();
    Frame hello = client().hello();
    hello.tail.resize(bytes);
    EXPECT_TRUE(is_refusal(s.on_frame(kStart, hello), Refusal::kMalformed)) << bytes;
    auto after_hello = server();
    auto c = client();
    Frame proof = proof_for(after_hello, c);
    proof.tail.resize(bytes);
    EXPECT_TRUE(is_refusal(after_hello.on_frame(kStart, proof), Refusal::kMalformed)) << bytes;
  }
  auto s = server();
  Frame hello = client().hello();
  hello.head = "x";
  EXPECT_TRUE(is_refusal(s.on_frame(kStart, hello), Refusal::kMalformed));
}

TEST(Session, NothingElseIsTakenBeforeTheProof) {
  for (unsigned type = 0; type < 256; ++type) {
    if (type == kHello) continue;
    auto s = server();
    Frame frame = client().hello();
    frame.header.type = static_cast<std::uint8_t>(type);
    EXPECT_FALSE(s.on_frame(kStart, frame)) << type;
    EXPECT_FALSE(s.on_frame(kStart, client().hello())) << "closed after type " << type;
  }
  auto c = client();
  Frame accepted;
  accepted.header.type = kAccepted;
  EXPECT_FALSE(c.on_frame(accepted));  // a server that skips its proof
  EXPECT_FALSE(c.established());
}

TEST(Session, TheDeadlineBoundsASlowPeer) {
  auto s = server();
  auto c = client();
  const TimePoint last = kStart + kHandshakeDeadline;
  const Frame proof = proof_for(s, c);
  EXPECT_FALSE(s.expired(last - std::chrono::nanoseconds(1)));
  EXPECT_TRUE(s.expired(last));
  const auto late = s.on_frame(last, proof);
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, Errc::kAuth);
  EXPECT_FALSE(s.proven());
  auto in_time = server();
  auto quick = client();
  ASSERT_TRUE(in_time.on_frame(last - std::chrono::nanoseconds(1), proof_for(in_time, quick)));
  EXPECT_FALSE(in_time.expired(last + std::chrono::hours(1)));
}

TEST(Session, AfterTheProofEveryFrameMustCarryTheProvenIdentity) {
  auto s = server();
  auto c = client();
  ASSERT_TRUE(s.on_frame(kStart, proof_for(s, c)));
  const FrameHeader good{.type = 16, .job_tag = kJob, .sender = kTrainer7, .incarnation = 5};
  EXPECT_TRUE(s.check(good));
  std::vector<FrameHeader> bad(5, good);
  bad[0].job_tag += 1;
  bad[1].sender.index = 8;
  bad[2].sender.role = Role::kPserver;
  bad[3].incarnation = 4;
  bad[4].type = kHello;
  for (std::size_t i = 0; i < bad.size(); ++i) EXPECT_FALSE(s.check(bad[i])) << i;
}

}  // namespace
}  // namespace paddle::net
