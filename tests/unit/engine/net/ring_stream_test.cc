#include "engine/net/ring_stream.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <thread>

#include "tests/unit/engine/net/net_fixture.h"

namespace paddle::net {
namespace {

// Both ends of one segment, with a socket pair beside it.
struct Ends {
  Ends() {
    int pair[2] = {-1, -1};
    PADDLE_CHECK(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) == 0);
    client_socket = UniqueFd(pair[0]);
    server_socket = UniqueFd(pair[1]);
    auto made = SharedSegment::create();
    PADDLE_CHECK(static_cast<bool>(made));
    auto found = SharedSegment::open(made->offer());
    PADDLE_CHECK(static_cast<bool>(found));
    made->close_file();
    layout = &made->layout();
    client.emplace(*std::move(made), Side::kClient, pair[0]);
    server.emplace(*std::move(found), Side::kServer, pair[1]);
  }
  UniqueFd client_socket;
  UniqueFd server_socket;
  SharedLayout* layout = nullptr;
  std::optional<RingStream> client;
  std::optional<RingStream> server;
};

Bytes noise(std::size_t bytes) {
  return frame_of(kEchoType, "", bytes).tail;
}

TEST(RingStream, CarriesMoreThanItHoldsBothWaysThroughSleeps) {
  Ends ends;
  const Bytes sent = noise(3 * kRingBytes + 12345);
  const auto pump = [&](RingStream& stream, Bytes& got, Duration pause) {
    std::size_t written = 0;
    got.resize(sent.size());
    for (std::size_t read = 0; read < got.size() || written < sent.size();) {
      const ByteSpan parts[] = {
          ByteSpan(sent).subspan(written).first(std::min<std::size_t>(sent.size() - written, 10)),
          ByteSpan(sent).subspan(std::min(sent.size(), written + 10))};
      std::size_t moved = 0;
      if (written < sent.size()) moved += *stream.write_some(parts);
      written += moved;
      if (read < got.size()) {
        const auto count = stream.read_some(std::span(got).subspan(read));
        ASSERT_TRUE(count) << count.error().message;
        read += *count;
        moved += *count;
      }
      const bool reads = read < got.size();
      if (moved == 0) {
        ASSERT_TRUE(
            stream.wait(reads ? Stream::Direction::kRead : Stream::Direction::kWrite, soon()));
      }
      std::this_thread::sleep_for(pause);  // so that the other side falls asleep
    }
  };
  Bytes at_server;
  Bytes at_client;
  std::thread other([&] { pump(*ends.server, at_server, std::chrono::milliseconds(1)); });
  pump(*ends.client, at_client, Duration::zero());
  other.join();
  EXPECT_TRUE(at_server == sent);
  EXPECT_TRUE(at_client == sent);
}

TEST(RingStream, GivesWhatWasWrittenBeforeThePeerWent) {
  Ends ends;
  const Bytes sent = noise(100);
  const ByteSpan parts[] = {sent};
  ASSERT_EQ(*ends.server->write_some(parts), sent.size());
  ends.server.reset();
  ends.server_socket.reset();
  ASSERT_TRUE(ends.client->prepare_sleep(0));
  ends.client->wake();  // sees the end of the socket
  Bytes got(60);
  EXPECT_EQ(*ends.client->read_some(got), 60U);
  EXPECT_EQ(*ends.client->read_some(got), 40U);
  ASSERT_TRUE(ends.client->wait(Stream::Direction::kRead, soon()));
  const auto end = ends.client->read_some(got);
  ASSERT_FALSE(end);
  EXPECT_EQ(end.error().code, Errc::kUnreachable);
  EXPECT_FALSE(ends.client->write_some(parts));
}

TEST(RingStream, ADeadlinePassesInASleep) {
  Ends ends;
  EXPECT_FALSE(ends.client->wait(Stream::Direction::kRead, in(std::chrono::milliseconds(2))));
  const Bytes sent = noise(2 * kRingBytes);
  const ByteSpan parts[] = {sent};
  ASSERT_EQ(*ends.client->write_some(parts), kRingBytes);
  EXPECT_EQ(*ends.client->write_some(parts), 0U);
  EXPECT_FALSE(ends.client->wait(Stream::Direction::kWrite, in(std::chrono::milliseconds(2))));
}

TEST(RingStream, RefusesImpossibleCountersOfThePeer) {
  Bytes got(10);
  const ByteSpan parts[] = {got};
  for (const std::uint64_t lie : {std::uint64_t{kRingBytes + 1}, std::uint64_t{1} << 63U}) {
    Ends ends;
    ends.layout->counters[0].written = lie;
    const auto read = ends.server->read_some(got);
    ASSERT_FALSE(read);
    EXPECT_EQ(read.error().code, Errc::kData);
    ends.layout->counters[1].read = lie;
    const auto written = ends.server->write_some(parts);
    ASSERT_FALSE(written);
    EXPECT_EQ(written.error().code, Errc::kData);
    ends.layout->counters[1].taken = lie;
    const auto taken = ends.server->newly_taken();
    ASSERT_FALSE(taken);
    EXPECT_EQ(taken.error().code, Errc::kData);
  }
}

// An offer of the file, with a token of zeros, which is what a new file holds.
Bytes offer_of(int fd) {
  Bytes offer(8 + kNonceBytes);
  std::fill(offer.begin(), offer.end(), std::byte{0});
  store_le(offer.data(), static_cast<std::uint32_t>(::getpid()));
  store_le(offer.data() + 4, static_cast<std::uint32_t>(fd));
  return offer;
}

TEST(SharedSegment, Trap25TakesOnlyASegmentThatCannotShrinkAndHoldsTheToken) {
  const auto file_of = [](std::size_t bytes, int seals) {
    UniqueFd fd(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    EXPECT_EQ(::ftruncate(fd.get(), static_cast<off_t>(bytes)), 0);
    EXPECT_EQ(::fcntl(fd.get(), F_ADD_SEALS, seals), 0);
    return fd;
  };
  constexpr int kBoth = F_SEAL_SHRINK | F_SEAL_GROW;
  const UniqueFd good = file_of(sizeof(SharedLayout), kBoth);
  EXPECT_TRUE(SharedSegment::open(offer_of(good.get())));
  Bytes other = offer_of(good.get());
  other.back() = std::byte{1};
  EXPECT_FALSE(SharedSegment::open(other));
  EXPECT_FALSE(SharedSegment::open(ByteSpan(offer_of(good.get())).first(39)));
  EXPECT_FALSE(SharedSegment::open(offer_of(file_of(sizeof(SharedLayout), 0).get())));
  EXPECT_FALSE(SharedSegment::open(offer_of(file_of(sizeof(SharedLayout), F_SEAL_GROW).get())));
  EXPECT_FALSE(SharedSegment::open(offer_of(file_of(sizeof(SharedLayout) - 1, kBoth).get())));
  int pipe[2] = {-1, -1};
  ASSERT_EQ(::pipe2(pipe, O_CLOEXEC), 0);
  const UniqueFd out(pipe[0]);
  const UniqueFd into(pipe[1]);
  EXPECT_FALSE(SharedSegment::open(offer_of(out.get())));
  EXPECT_FALSE(SharedSegment::open(offer_of(987'654)));
}

}  // namespace
}  // namespace paddle::net
