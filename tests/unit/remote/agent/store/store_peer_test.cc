// One store gives another what it lacks, sealed and not.
#include "remote/agent/store/store_peer.h"

#include <gtest/gtest.h>

#include "proto/agent_channel.h"
#include "proto/content.h"
#include "proto/keys.h"
#include "remote/agent/store/store.h"
#include "tests/support/temporary_folder.h"

namespace paddle::agent {
namespace {

using wire::agent::PullRequest;
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
  StorePeerTest() : root_(*open_root(folder_.make("root"))), store_(*Store::open(root_)) {}

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
  static PullRequest request(const ServeReply& from) {
    PullRequest request;
    *request.mutable_from() = from;
    request.set_caller(kCaller);
    return request;
  }
  // The pieces that arrived, and the outcome.
  std::pair<std::vector<std::string>, wire::agent::PullReply> pull(
      const ServeReply& from, const std::vector<Piece>& pieces) {
    std::vector<std::string> came;
    auto reply =
        pull_pieces(request(from), key_.reveal(), pieces, [&](std::size_t i, ByteSpan bytes) {
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
  static constexpr std::uint32_t kCaller = 3;
  const Secret token_ = *Secret::generate();
  const Secret key_ = peer_caller_key(token_, kCaller);
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
  EXPECT_FALSE(pull_pieces(request(*from), key_.reveal(), {long_piece}, add_none));
  EXPECT_FALSE(
      pull_pieces(request(*from), key_.reveal(), std::vector<Piece>(kPiecesMax + 1), add_none));
  ServeReply nowhere = *from;
  nowhere.set_address("somewhere");
  EXPECT_FALSE(pull_pieces(request(nowhere), key_.reveal(), {}, add_none));
}

}  // namespace
}  // namespace paddle::agent
