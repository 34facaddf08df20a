#include "cli/cluster/link_check.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "tests/support/fake_cluster.h"

namespace paddle::cli {
namespace {

std::vector<LinkEnd> ends_of(std::size_t count) {
  std::vector<LinkEnd> ends;
  for (std::size_t i = 0; i < count; ++i) {
    ends.push_back({i, "10.0.0." + std::to_string(i), static_cast<std::uint16_t>(7000 + i)});
  }
  return ends;
}

TEST(LinkCheck, EveryPairIsTriedOnceInEachDirection) {
  for (const std::size_t count : {2U, 3U, 6U, 7U}) {
    FakeCluster fake(count);
    ClusterSession session = fake.session();
    const auto check = check_links(fake.context, session, ends_of(count));
    ASSERT_TRUE(check) << check.error().message;
    EXPECT_EQ(check->rounds, count - 1);
    EXPECT_EQ(check->rounds_tried, count - 1);
    ASSERT_EQ(check->links.size(), count * (count - 1));
    std::size_t at = 0;
    for (std::size_t from = 0; from < count; ++from) {
      for (std::size_t to = 0; to < count; ++to) {
        if (from == to) continue;
        EXPECT_EQ(check->links[at].from, from);
        EXPECT_EQ(check->links[at].to, to);
        ++at;
      }
    }
    for (std::size_t i = 0; i < count; ++i) EXPECT_TRUE(fake.node(i).taken_ports.empty());
  }
}

TEST(LinkCheck, AnEndWithoutAPortCallsAndIsNotCalled) {
  FakeCluster fake(3);
  ClusterSession session = fake.session();
  auto ends = ends_of(3);
  ends[1].port = 0;
  const auto check = check_links(fake.context, session, ends);
  ASSERT_TRUE(check);
  EXPECT_EQ(check->links.size(), 4U);
  EXPECT_TRUE(std::ranges::none_of(check->links, [](const Link& link) { return link.to == 1; }));
  EXPECT_EQ(fake.node(1).probed.size(), 2U);
}

TEST(LinkCheck, CtrlCEndsItAndNobodyListensOn) {
  FakeCluster fake(3);
  ClusterSession session = fake.session();
  fake.interrupted = true;
  const auto check = check_links(fake.context, session, ends_of(3));
  ASSERT_FALSE(check);
  EXPECT_EQ(check.error().code, Errc::kInterrupted);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_TRUE(fake.node(i).taken_ports.empty());
}

TEST(LinkCheck, OneNodeAloneHasNoLinks) {
  FakeCluster fake(1);
  ClusterSession session = fake.session();
  const auto check = check_links(fake.context, session, ends_of(1));
  ASSERT_TRUE(check);
  EXPECT_TRUE(check->links.empty());
  EXPECT_EQ(check->rounds, 0U);
}

}  // namespace
}  // namespace paddle::cli
