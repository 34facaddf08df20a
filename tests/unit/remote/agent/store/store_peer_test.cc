// One store gives another what it lacks, sealed and not, and nothing to strangers.
#include "remote/agent/store/store_peer.h"

#include <arpa/inet.h>
#include <sys/socket.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include <gtest/gtest.h>

#include "base/secret.h"
#include "proto/content.h"
#include "proto/frame_stream.h"
#include "remote/agent/peer/stream.h"
#include "remote/agent/store/store.h"
#include "tests/support/temporary_folder.h"

namespace paddle::agent {
namespace {

using wire::agent::ServeReply;
using wire::agent::ServeRequest;

TimePoint soon() {
  return TimePoint(std::chrono::steady_clock::now()) + std::chrono::seconds(10);
}

std::string noise(std::size_t size, unsigned seed) {
  std::string text(size, '\0');
  for (char& c : text) c = static_cast<char>((seed = seed * 1664525U + 1013904223U) >> 24U);
  return text;
}

class StorePeerTest : public testing::TestWithParam<bool> {
 protected:
  StorePeerTest() : root_(*open_root(folder_.path() + "/root")), store_(*Store::open(root_)) {}

  Piece add(const std::string& content) {
    const Piece piece{
        {sha256_of(as_bytes(content)), 0444}, 0, static_cast<std::uint32_t>(content.size())};
    EXPECT_TRUE(store_->add(piece.key, as_bytes(content)));
    return piece;
  }
  Result<ServeReply> serve(std::uint32_t port = 0) {
    ServeRequest request;
    request.set_address("127.0.0.1");
    request.set_port(port);
    request.set_seal_always(GetParam());
    return serve_store(listener_, root_, request, token_.reveal());
  }
  // The pieces that arrived, and the outcome.
  std::pair<std::vector<std::string>, wire::agent::PullReply> pull(
      const ServeReply& from, const std::vector<Piece>& pieces) {
    std::vector<std::string> came;
    auto reply = pull_pieces(from, token_.reveal(), pieces, [&](std::size_t i, ByteSpan bytes) {
      EXPECT_EQ(i, came.size());
      came.emplace_back(as_text(bytes));
      return Status();
    });
    EXPECT_TRUE(reply) << reply.error().message;
    return {came, reply ? *reply : wire::agent::PullReply()};
  }

  test::TemporaryFolder folder_;
  const Root root_;
  std::unique_ptr<Store> store_;
  const Secret token_ = *Secret::generate();
  PeerListener listener_;
};

INSTANTIATE_TEST_SUITE_P(SealedAndNot, StorePeerTest, testing::Bool());

TEST_P(StorePeerTest, GivesWholeFilesPartsOfThemAndWhatIsStillArriving) {
  const std::string one = noise(200'000, 1), two = noise(70'000, 2), part = noise(400'000, 3);
  Piece first = add(one);
  const Piece second = add(two);
  const Piece empty = add("");
  const Piece arriving{{sha256_of(as_bytes(part)), 0555}, 100'000, 200'000};
  const auto partial = store_->open_partial(arriving.key);
  ASSERT_TRUE(partial);
  ASSERT_TRUE(write_all(partial->get(), as_bytes(part), soon()));
  Piece middle = first;
  middle.offset = 1000;
  middle.size = 5000;
  const auto from = serve();
  ASSERT_TRUE(from) << from.error().message;
  EXPECT_EQ(from->sealed(), GetParam());
  const auto [came, reply] = pull(*from, {first, second, middle, empty, arriving});
  EXPECT_EQ(reply.outcome(), wire::agent::PROBE_REACHED) << reply.detail();
  EXPECT_EQ(reply.arrived(), 5U);
  const std::vector<std::string> expected{one, two, one.substr(1000, 5000), "",
                                          part.substr(100'000, 200'000)};
  EXPECT_TRUE(came == expected);
}

TEST_P(StorePeerTest, WhatItLacksEndsItAndWhatCameBeforeCounts) {
  const Piece here = add("here");
  Piece longer = here;
  longer.size = 100;
  const Piece gone{{sha256_of(as_bytes("gone")), 0444}, 0, 4};
  const auto from = serve();
  ASSERT_TRUE(from);
  for (const Piece& missing : {gone, longer}) {
    const auto [came, reply] = pull(*from, {here, missing, here});
    EXPECT_EQ(reply.outcome(), wire::agent::PROBE_STALLED);
    EXPECT_EQ(reply.arrived(), 1U);
    EXPECT_EQ(came, std::vector<std::string>{"here"});
  }
}

TEST_P(StorePeerTest, AnotherTokenGetsNothing) {
  const Piece piece = add("secret");
  const auto from = serve();
  ASSERT_TRUE(from);
  const auto reply = pull_pieces(*from, Secret::generate()->reveal(), {piece},
                                 [](std::size_t, ByteSpan) { return Status(); });
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->outcome(), wire::agent::PROBE_NO_PROOF);
  EXPECT_EQ(reply->arrived(), 0U);
}

TEST_P(StorePeerTest, AnotherPortIsTakenWhenThatOneIsNotFree) {
  const auto first = serve();
  ASSERT_TRUE(first);
  PeerListener other;
  ServeRequest request;
  request.set_address("127.0.0.1");
  request.set_port(first->port());
  const auto second = serve_store(other, root_, request, token_.reveal());
  ASSERT_TRUE(second) << second.error().message;
  EXPECT_NE(second->port(), first->port());
  listener_.stop();
  EXPECT_TRUE(serve(first->port())) << "the port is free again";
}

TEST_P(StorePeerTest, SenselessRequestsAreErrors) {
  Piece long_piece = add("x");
  long_piece.size = kPieceBytesMax + 1;
  const auto from = serve();
  ASSERT_TRUE(from);
  const auto add_none = [](std::size_t, ByteSpan) { return Status(); };
  EXPECT_FALSE(pull_pieces(*from, token_.reveal(), {long_piece}, add_none));
  EXPECT_FALSE(pull_pieces(*from, token_.reveal(), std::vector<Piece>(kPiecesMax + 1), add_none));
  ServeReply nowhere = *from;
  nowhere.set_address("somewhere");
  EXPECT_FALSE(pull_pieces(nowhere, token_.reveal(), {}, add_none));
}

// A proven caller that asks for too much is closed, and others are served meanwhile.
TEST_P(StorePeerTest, ACallerThatAsksForTooMuchIsClosed) {
  const Piece piece = add("piece");
  const auto from = serve();
  ASSERT_TRUE(from);
  wire::agent::ProbeTarget target;
  target.set_address(from->address());
  target.set_port(from->port());
  const auto call = call_peer(target, token_.reveal(), "store");
  ASSERT_TRUE(call && call->fd);
  auto stream = PeerStream::open(call->fd.get(), token_.reveal(), PeerStream::Side::kCaller,
                                 GetParam(), soon());
  ASSERT_TRUE(stream);
  EXPECT_EQ(pull(*from, {piece}).second.arrived(), 1U) << "beside a caller who says nothing";
  const std::uint32_t many = 0xffffffffU;
  ASSERT_TRUE(stream->write(std::as_bytes(std::span(&many, 1)), soon()));
  std::byte answer{};
  const Status closed = stream->read(std::span(&answer, 1), soon());
  ASSERT_FALSE(closed);
  EXPECT_NE(closed.error().message, "deadline passed");
  EXPECT_EQ(pull(*from, {piece}).second.arrived(), 1U);
}

TEST(PeerStream, AChangedReplayedOrForeignRecordEndsIt) {
  const Secret token = *Secret::generate();
  for (int what = 0; what < 4; ++what) {
    int pair[2], other[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, other), 0);
    const UniqueFd a(pair[0]), between_a(pair[1]), between_b(other[0]), b(other[1]);
    // Somebody between the two, who lets the nonces pass.
    std::jthread middle([&, what] {
      std::array<std::byte, 32> nonce;
      if (!read_exact(between_a.get(), nonce, soon())) return;
      (void)write_all(between_b.get(), nonce, soon());
      if (!read_exact(between_b.get(), nonce, soon())) return;
      (void)write_all(between_a.get(), nonce, soon());
      Bytes record(4 + 5 + 16);
      if (!read_exact(between_a.get(), record, soon())) return;
      if (what == 1) record[6] ^= std::byte{1};
      if (what == 2) record[3] = std::byte{0x7f};
      (void)write_all(between_b.get(), record, soon());
      if (what == 3) (void)write_all(between_b.get(), record, soon());
    });
    std::optional<Result<PeerStream>> caller;
    std::jthread calls([&] {
      caller = PeerStream::open(a.get(), token.reveal(), PeerStream::Side::kCaller, true, soon());
    });
    auto listener =
        PeerStream::open(b.get(), token.reveal(), PeerStream::Side::kListener, true, soon());
    calls.join();
    ASSERT_TRUE(*caller && listener);
    ASSERT_TRUE((*caller)->write(as_bytes("hello"), soon()));
    Bytes read(5);
    const Status first = listener->read(read, soon());
    EXPECT_EQ(static_cast<bool>(first), what == 0 || what == 3) << what;
    if (first) {
      EXPECT_EQ(as_text(read), "hello");
    }
    if (what == 3) {
      EXPECT_FALSE(listener->read(read, soon())) << "the same record again";
    }
  }
}

}  // namespace
}  // namespace paddle::agent
