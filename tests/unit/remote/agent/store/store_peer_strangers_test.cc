// Callers of a store that have no key, play an old exchange again, or stall.
#include "proto/keys.h"
#include "remote/agent/store/peer_connection.h"
#include "remote/agent/store/store.h"
#include "remote/agent/store/store_peer.h"
#include "tests/support/noise.h"
#include "tests/support/temporary_folder.h"
#include "tests/unit/remote/agent/store/peer_wire.h"

namespace paddle::agent {
namespace {

using test_wire::connect_to;
using test_wire::kLong;
using test_wire::read_to_end;
using test_wire::Recorder;
using test_wire::within;
using wire::agent::PullReply;
using wire::agent::ServeReply;

constexpr Duration kAtOnce = std::chrono::seconds(2);

class StoreStrangersTest : public testing::TestWithParam<bool> {
 protected:
  StoreStrangersTest() : root_(*open_root(folder_.make("root"))), store_(*Store::open(root_)) {
    piece_ = {
        {sha256_of(as_bytes(content_)), 0444}, 0, static_cast<std::uint32_t>(content_.size())};
    EXPECT_TRUE(store_->add(piece_.key, as_bytes(content_)));
    wire::agent::ServeRequest request;
    request.set_address("127.0.0.1");
    request.set_seal_always(GetParam());
    auto from = serve_store(listener_, root_, request, token_.reveal());
    EXPECT_TRUE(from);
    if (from) from_ = *from;
  }

  PullReply pull(const Secret& token, std::uint32_t caller, std::uint32_t key_of,
                 std::uint32_t port = 0) {
    wire::agent::PullRequest request;
    *request.mutable_from() = from_;
    if (port != 0) request.mutable_from()->set_port(port);
    request.set_caller(caller);
    auto reply = pull_pieces(request, peer_caller_key(token, key_of).reveal(), {piece_},
                             [&](std::size_t, ByteSpan bytes) {
                               EXPECT_EQ(as_text(bytes), content_);
                               return Status();
                             });
    EXPECT_TRUE(reply);
    return reply ? *reply : PullReply();
  }
  bool is_served(std::uint32_t caller) {
    const TimePoint end = within(kAtOnce);
    return pull(token_, caller, caller).arrived() == 1 && within({}) < end;
  }
  PeerConnection proven(std::uint32_t caller) {
    wire::agent::ProbeTarget target;
    target.set_address(from_.address());
    target.set_port(from_.port());
    target.set_caller(caller);
    auto call = call_peer(target, peer_caller_key(token_, caller).reveal(), "store");
    EXPECT_TRUE(call && call->connection);
    return std::move(*call->connection);
  }
  // The bytes of a caller that was served.
  Bytes recorded() {
    Recorder recorder(from_.port());
    EXPECT_EQ(pull(token_, 1, 1, recorder.port()).arrived(), 1U);
    return recorder.finish().first;
  }

  const std::string content_ = test::noise(5000, 1);
  test::TemporaryFolder folder_;
  const Root root_;
  std::unique_ptr<Store> store_;
  Piece piece_;
  const Secret token_ = *Secret::generate();
  PeerListener listener_;
  ServeReply from_;
};

INSTANTIATE_TEST_SUITE_P(SealedAndNot, StoreStrangersTest, testing::Bool());

TEST_P(StoreStrangersTest, ARecordedExchangeGetsNothing) {
  const Bytes said = recorded();
  const UniqueFd replayer = connect_to(from_.port());
  ASSERT_TRUE(write_all(replayer.get(), said, within(kLong)));
  const auto answer = read_to_end(replayer.get(), within(kLong));
  ASSERT_TRUE(answer);
  EXPECT_LE(answer->size(), 32U) << "a nonce, and no proof";
}

TEST_P(StoreStrangersTest, StalledReplaysKeepNobodyOut) {
  const Bytes said = recorded();
  for (const std::size_t count : {8U, 100U}) {
    std::vector<UniqueFd> stalled;
    for (std::size_t i = 0; i < count; ++i) {
      stalled.push_back(connect_to(from_.port()));
      (void)write_all(stalled.back().get(), ByteSpan(said).first(68), within(kLong));
    }
    EXPECT_TRUE(is_served(1)) << count;
  }
}

TEST_P(StoreStrangersTest, StalledStrangersKeepNobodyOut) {
  for (const std::size_t count : {8U, 100U}) {
    std::vector<UniqueFd> stalled;
    for (std::size_t i = 0; i < count; ++i) stalled.push_back(connect_to(from_.port()));
    EXPECT_TRUE(is_served(1)) << count;
  }
}

TEST_P(StoreStrangersTest, AnotherTokenOrTheNumberOfAnotherCallerGetsNothing) {
  EXPECT_EQ(pull(*Secret::generate(), 1, 1).outcome(), wire::agent::PROBE_NO_PROOF);
  EXPECT_EQ(pull(token_, 1, 2).outcome(), wire::agent::PROBE_NO_PROOF);
  EXPECT_EQ(pull(token_, 1, 1).arrived(), 1U);
}

TEST_P(StoreStrangersTest, ACallerThatStallsAllItsConnectionsKeepsNobodyElseOut) {
  std::vector<PeerConnection> stalled;
  for (int i = 0; i < 20; ++i) stalled.push_back(proven(1));
  EXPECT_TRUE(is_served(2));
  EXPECT_TRUE(is_served(1)) << "its newest connection ends the others";
}

TEST_P(StoreStrangersTest, ASilentCallerIsEndedAtTheDeadline) {
  const PeerConnection silent = proven(1);
  EXPECT_TRUE(read_to_end(silent.fd.get(), within(kLong)));
}

TEST_P(StoreStrangersTest, ACallerThatAsksForTooMuchIsClosed) {
  const PeerConnection greedy = proven(1);
  PeerStream stream(greedy, PeerStream::Side::kCaller, GetParam());
  const std::uint32_t many = 0xffffffffU;
  ASSERT_TRUE(stream.write(std::as_bytes(std::span(&many, 1)), within(kLong)));
  std::byte answer{};
  const Status closed = stream.read(std::span(&answer, 1), within(kAtOnce));
  ASSERT_FALSE(closed);
  EXPECT_NE(closed.error().message, "deadline passed");
  EXPECT_TRUE(is_served(2));
}

}  // namespace
}  // namespace paddle::agent
