// Gradients and values of one rank, below the client.
#include <malloc.h>

#include "tests/unit/engine/group/group_client_fixture.h"

namespace paddle::strategy {
namespace {

// Between two parameters is room that nobody writes; the first frame of a step carries it along.
TEST(HostRanks, NothingThatTheHeapHeldBeforeGoesToOtherRanks) {
  const auto set = set_of("sgd", {5, 17}, 1);
  collective::as_groups(collective::options_of(1), [&](collective::Group& group) {
    ::mallopt(M_PERTURB, 0x5a);
    const auto ranks = HostRanks::create(set, group, {});
    ::mallopt(M_PERTURB, 0);
    ASSERT_TRUE(ranks);
    auto dense = parameters_of(set);
    ASSERT_TRUE((*ranks)->lend(dense));
    for (DenseParameter& one : dense) std::ranges::fill(one.gradients(), 1.0F);
    ASSERT_TRUE((*ranks)->take(dense));
    const auto carried = (*ranks)->carried();
    ASSERT_GT(carried.size(), 22U);
    EXPECT_EQ(std::ranges::count(carried, 1.0F), 22);
    EXPECT_EQ(std::ranges::count(carried, 0.0F), std::ssize(carried) - 22);
  });
}

}  // namespace
}  // namespace paddle::strategy
