#include "tests/support/free_ports.h"

#include <gtest/gtest.h>

namespace paddle::test {
namespace {

TEST(FreePorts, OfABlockAreOneProcessesUntilItEnds) {
  constexpr std::uint32_t kNobodys = 1000;  // beyond the blocks that are given
  UniqueFd first = claim(kNobodys);
  EXPECT_TRUE(first);
  EXPECT_FALSE(claim(kNobodys));
  first.reset();
  EXPECT_TRUE(claim(kNobodys));
}

TEST(FreePorts, LieInARowAndAreGivenOnce) {
  const std::uint16_t few = free_ports(3);
  const std::uint16_t more = free_ports(100);
  const std::uint16_t others = free_ports(3);
  ASSERT_TRUE(few != 0 && more != 0 && others != 0);
  EXPECT_TRUE(more >= few + 3 || more + 100 <= few);
  EXPECT_TRUE(others >= more + 100 || others + 3 <= more);
  for (std::uint16_t i = 0; i < 100; ++i)
    EXPECT_TRUE(listen_on(static_cast<std::uint16_t>(more + i)));
}

}  // namespace
}  // namespace paddle::test
