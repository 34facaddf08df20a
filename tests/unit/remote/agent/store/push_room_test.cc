// Pushes that a node's disk has no room for.
#include <gtest/gtest.h>

#include "remote/agent/store/incoming_push.h"

namespace paddle::agent {
namespace {

constexpr std::uint64_t kMegabyte = 1'000'000;

TEST(PushRoom, FilesMayTakeAllButAFifthOfThem) {
  PushRoom room("/node", 120 * kMegabyte);
  EXPECT_TRUE(room.reserve(50 * kMegabyte));
  EXPECT_TRUE(room.reserve(49 * kMegabyte));
  const Status full = room.reserve(2 * kMegabyte);
  ASSERT_FALSE(full);
  EXPECT_EQ(full.error().code, Errc::kResource);
  EXPECT_EQ(full.error().message,
            "there is not enough disk space for this push in /node: its files need at least 101 MB "
            "there, the job at least 20 MB more, and 120 MB are free; nothing was sent");
  EXPECT_NE(full.error().hint.find("workdir"), std::string::npos);
}

TEST(PushRoom, OfALargePushAGigabyteIsLeft) {
  constexpr std::uint64_t kGigabyte = 1000 * kMegabyte;
  PushRoom room("/node", 51 * kGigabyte);
  EXPECT_TRUE(room.reserve(49'900 * kMegabyte));
  EXPECT_FALSE(room.reserve(200 * kMegabyte));
}

TEST(PushRoom, SmallFilesTakeWholeBlocks) {
  PushRoom room("/node", 1 * kMegabyte);
  std::uint64_t files = 0;
  while (room.reserve(1)) ++files;
  EXPECT_EQ(files, 203U);
}

}  // namespace
}  // namespace paddle::agent
