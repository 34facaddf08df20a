// Groups whose pairs of ranks have several sockets, of which one breaks, or of unlike numbers.
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

#include "tests/unit/engine/group/group_fixture.h"

namespace paddle::collective {
namespace {

constexpr std::uint32_t kLanes = 4;

// This process's sockets that are connected to a port, in the order in which they were opened.
std::vector<int> sockets_to(std::uint16_t port) {
  std::vector<int> found;
  for (int fd = 0; fd < 1024; ++fd) {
    asio::ip::tcp::endpoint peer;
    auto size = static_cast<socklen_t>(peer.capacity());
    if (::getpeername(fd, peer.data(), &size) == 0 && peer.port() == port) found.push_back(fd);
  }
  return found;
}

// As a machine in the middle would that has forgotten the connection. ThreadSanitizer takes
// connect() for the birth of the descriptor.
void reset(int fd) {
  const sockaddr nothing{.sa_family = AF_UNSPEC, .sa_data = {}};
  EXPECT_EQ(::syscall(SYS_connect, fd, &nothing, sizeof nothing), 0);
}

class GroupLanes : public ::testing::TestWithParam<net::Transport> {};
INSTANTIATE_TEST_SUITE_P(Transports, GroupLanes,
                         ::testing::Values(net::Transport::kSealed, net::Transport::kAlways),
                         [](const auto& transport) {
                           return transport.param == net::Transport::kAlways ? "Tls" : "Tcp";
                         });

TEST_P(GroupLanes, ABrokenOneEndsTheGroupWhileNothingIsSentOnIt) {
  auto all = options_of(2, {"", GetParam(), false, kLanes});
  const std::uint16_t port = all[0].members[0].endpoint.port;
  std::atomic<int> joined = 0;
  as_ranks(std::move(all), [&](GroupOptions own) {
    const std::uint32_t rank = own.rank;
    auto group = Group::join(std::move(own), soon());
    ASSERT_TRUE(group) << group.error().message;
    ++joined;
    while (joined < 2) std::this_thread::yield();
    if (rank == 1) {
      const std::vector<int> sockets = sockets_to(port);
      ASSERT_EQ(sockets.size(), kLanes);
      reset(sockets.back());
    }
    const TimePoint begin = SteadyClock().now();
    const Status why = (*group)->watch(soon());
    ASSERT_FALSE(why);
    EXPECT_LT(SteadyClock().now() - begin, std::chrono::seconds(5));
    EXPECT_EQ(why.error().code, Errc::kUnreachable);
    EXPECT_TRUE(why.error().message.starts_with("lost rank ")) << why.error().message;
  });
}

TEST_P(GroupLanes, ABrokenOneEndsTheGroupInTheMiddleOfABucket) {
  auto all = options_of(3, {"", GetParam(), false, kLanes});
  const std::uint16_t port = all[0].members[0].endpoint.port;
  std::atomic<int> steps = 0;
  as_ranks(std::move(all), [&](GroupOptions own) {
    const std::uint32_t rank = own.rank;
    auto group = Group::join(std::move(own), soon());
    ASSERT_TRUE(group) << group.error().message;
    const std::vector<float> shares(3, 1.0F);
    for (;;) {
      std::vector<float> bucket(1'000'000, 1.0F);
      const Pending pending = (*group)->reduce_scatter(bucket, shares);
      if (rank == 1 && ++steps == 5) reset(sockets_to(port)[2]);
      const Status done = pending.wait();
      if (done) {
        const Range slice = (*group)->own_slice(bucket.size() * sizeof(float));
        for (std::size_t i = slice.begin / 4; i < slice.end / 4; ++i) ASSERT_EQ(bucket[i], 3.0F);
        continue;
      }
      EXPECT_EQ(done.error().code, Errc::kUnreachable);
      EXPECT_NE(done.error().message.find("lost rank "), std::string::npos) << done.error().message;
      return;
    }
  });
}

TEST(GroupLanesSetting, UnlikeNumbersAreRefusedNamingBothRanks) {
  auto all = options_of(2);
  all[1].lanes = 4;
  as_ranks(std::move(all), [](GroupOptions own) {
    const auto group = Group::join(std::move(own), soon());
    ASSERT_FALSE(group);
    EXPECT_EQ(group.error().code, Errc::kUsage);
    for (const char* const part :
         {"rank 0 (node-0) has lanes = 1", "rank 1 (node-1) has lanes = 4"})
      EXPECT_NE(group.error().message.find(part), std::string::npos) << group.error().message;
  });
}

TEST(GroupLanesSetting, NoneAndTooManyAreRefused) {
  for (const std::uint32_t lanes : {0U, net::peer::kLanesMax + 1}) {
    auto all = options_of(1);
    all[0].lanes = lanes;
    const auto group = Group::join(std::move(all[0]), soon());
    ASSERT_FALSE(group);
    EXPECT_EQ(group.error().code, Errc::kUsage);
  }
}

}  // namespace
}  // namespace paddle::collective
