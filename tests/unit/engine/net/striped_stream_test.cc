// One byte stream over several sockets whose buffers hold little.
#include "engine/net/striped_stream.h"

#include <sys/socket.h>

#include "base/rng.h"
#include "tests/unit/engine/net/net_fixture.h"

namespace paddle::net::peer {
namespace {

constexpr int kSocketBytes = 8 << 10;  // of a buffer

class StripedStreamTest : public testing::TestWithParam<std::size_t> {
 protected:
  void connect(std::size_t lanes) {
    std::vector<std::unique_ptr<Stream>> streams[2];
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      int pair[2];
      ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair), 0);
      for (int end = 0; end < 2; ++end) {
        ::setsockopt(pair[end], SOL_SOCKET, SO_SNDBUF, &kSocketBytes, sizeof kSocketBytes);
        sockets_[end].emplace_back(pair[end]);
        streams[end].push_back(make_socket_stream(pair[end]));
      }
    }
    for (int end = 0; end < 2; ++end) {
      ends_[end] = std::make_unique<StripedStream>(std::move(streams[end]));
    }
  }

  std::vector<UniqueFd> sockets_[2];
  std::unique_ptr<StripedStream> ends_[2];
};

INSTANTIATE_TEST_SUITE_P(Lanes, StripedStreamTest, testing::Values(1, 2, 3, 16));

Bytes noise(std::size_t count, Rng& rng) {
  Bytes bytes(count);
  for (std::size_t at = 0; at < count; at += sizeof(std::uint64_t)) {
    const std::uint64_t word = rng.next();
    std::memcpy(&bytes[at], &word, std::min(sizeof word, count - at));
  }
  return bytes;
}

// One end: what it sends in writes of any sizes, and what it reads into any sizes.
struct End {
  StripedStream& stream;
  Rng rng;
  Bytes sends;
  std::size_t sent = 0;
  Bytes read = {};
  Bytes into = Bytes(150'000);

  void write() {
    std::vector<ByteSpan> parts;
    std::size_t at = sent;
    for (int i = 0; i < 3; ++i) {
      const std::size_t count = std::min<std::size_t>(rng.next() % 200'000, sends.size() - at);
      parts.push_back(ByteSpan(sends).subspan(at, count));
      at += count;
    }
    const auto put = stream.write_some(parts);
    ASSERT_TRUE(put) << put.error().message;
    sent += *put;
  }
  void receive() {
    const auto got = stream.read_some(std::span(into).first(1 + rng.next() % into.size()));
    ASSERT_TRUE(got) << got.error().message;
    append_bytes<std::byte>(read, std::span(into).first(*got));
  }
};

TEST_P(StripedStreamTest, BothWaysAtOnceArriveByteForByte) {
  connect(GetParam());
  Rng rng(GetParam());
  End ends[] = {{*ends_[0], Rng(1), noise(1'500'017, rng)},
                {*ends_[1], Rng(2), noise(1'222'222, rng)}};
  const TimePoint end = soon();
  for (;
       ends[0].read.size() < ends[1].sends.size() || ends[1].read.size() < ends[0].sends.size();) {
    ASSERT_LT(SteadyClock().now(), end);
    End& one = ends[rng.next() % 2];
    if (rng.next() % 2 == 0) {
      one.write();
    } else {
      one.receive();
    }
  }
  EXPECT_EQ(ends[0].read, ends[1].sends);
  EXPECT_EQ(ends[1].read, ends[0].sends);
}

TEST_P(StripedStreamTest, EveryChunkGoesOnTheNextLane) {
  connect(GetParam());
  const std::size_t lanes = GetParam();
  Rng rng(7);
  const Bytes bytes = noise(3 * lanes * kChunkBytes + 5, rng);
  std::vector<Bytes> arrived(lanes);
  Bytes into(kChunkBytes);
  for (std::size_t sent = 0; sent < bytes.size();) {
    const ByteSpan parts[] = {ByteSpan(bytes).subspan(sent)};
    const auto put = ends_[0]->write_some(parts);
    ASSERT_TRUE(put);
    sent += *put;
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      const ssize_t got = ::recv(sockets_[1][lane].get(), into.data(), into.size(), 0);
      if (got <= 0) continue;
      append_bytes<std::byte>(arrived[lane], std::span(into).first(static_cast<std::size_t>(got)));
    }
  }
  for (std::size_t at = 0, chunk = 0; at < bytes.size(); at += kChunkBytes, ++chunk) {
    const auto sent = ByteSpan(bytes).subspan(at, std::min(kChunkBytes, bytes.size() - at));
    const auto came = ByteSpan(arrived[chunk % lanes]).subspan(chunk / lanes * kChunkBytes);
    EXPECT_TRUE(std::ranges::equal(came.first(std::min(came.size(), sent.size())), sent)) << chunk;
  }
  EXPECT_EQ(ends_[0]->writes_to(), 3 * lanes % lanes);
}

TEST_P(StripedStreamTest, AnEndIsReadBehindAllThatCameBeforeIt) {
  connect(GetParam());
  Rng rng(3);
  const Bytes bytes = noise(GetParam() == 1 ? 1'000 : kChunkBytes + 1'000, rng);
  Bytes read;
  Bytes into(10'000);
  for (std::size_t sent = 0; sent < bytes.size();) {
    const ByteSpan parts[] = {ByteSpan(bytes).subspan(sent)};
    sent += *ends_[0]->write_some(parts);
    if (sent == bytes.size()) break;
    const auto got = ends_[1]->read_some(into);
    ASSERT_TRUE(got);
    append_bytes<std::byte>(read, std::span(into).first(*got));
  }
  for (const UniqueFd& socket : sockets_[0]) ::shutdown(socket.get(), SHUT_WR);
  auto got = ends_[1]->read_some(into);
  for (; got && *got > 0; got = ends_[1]->read_some(into)) {
    append_bytes<std::byte>(read, std::span(into).first(*got));
  }
  EXPECT_EQ(read, bytes);
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code, Errc::kUnreachable);
}

TEST(StripedStream, AWriteWaitsForItsLaneThoughOthersHaveRoom) {
  int pairs[2][2];
  std::vector<std::unique_ptr<Stream>> streams;
  std::vector<UniqueFd> sockets;
  for (auto& pair : pairs) {
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair), 0);
    ::setsockopt(pair[0], SOL_SOCKET, SO_SNDBUF, &kSocketBytes, sizeof kSocketBytes);
    streams.push_back(make_socket_stream(pair[0]));
    for (const int fd : pair) sockets.emplace_back(fd);
  }
  StripedStream stream(std::move(streams));
  const Bytes bytes(kChunkBytes);
  const ByteSpan parts[] = {bytes};
  const auto first = stream.write_some(parts);
  ASSERT_TRUE(first);
  EXPECT_LT(*first, kChunkBytes);
  EXPECT_EQ(*stream.write_some(parts), 0U);
  EXPECT_EQ(stream.writes_to(), 0U);
  std::byte one{};
  EXPECT_EQ(::recv(pairs[1][1], &one, 1, 0), -1);
}

}  // namespace
}  // namespace paddle::net::peer
