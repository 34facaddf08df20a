#include "cli/cluster/placement.h"

#include <gtest/gtest.h>

namespace paddle::cli {
namespace {

ClusterSpec three_hosts() {
  auto cluster =
      parse_cluster("[[node]]\nhost = \"h[0-2]\"\naddress = \"10.0.0.[1-3]\"\n", "t.toml");
  EXPECT_TRUE(cluster) << cluster.error().message;
  return *cluster;
}

TEST(PlaceOnGpus, ATrainerForEachNodeAfterNode) {
  const std::vector<NodeGpus> gpus{{"0,1", {0, 1}, {"a", "b"}}, {}, {"0", {0}, {"c"}}};
  using Nodes = std::vector<std::size_t>;
  const auto all = place_on_gpus(three_hosts(), gpus, 0, 0);
  ASSERT_TRUE(all) << all.error().message;
  EXPECT_EQ(all->trainers, (Nodes{0, 0, 2}));
  EXPECT_EQ(all->nodes, (Nodes{0, 2}));
  EXPECT_EQ(place_on_gpus(three_hosts(), gpus, 2, 1)->trainers, (Nodes{0, 0}));
  const auto many = place_on_gpus(three_hosts(), gpus, 4, 0);
  ASSERT_FALSE(many);
  EXPECT_EQ(many.error().code, Errc::kUsage);
  EXPECT_EQ(many.error().message, "4 trainers for 3 GPUs, but each trainer needs one GPU");
  EXPECT_FALSE(place_on_gpus(three_hosts(), std::vector<NodeGpus>(3), 0, 0));
}

}  // namespace
}  // namespace paddle::cli
