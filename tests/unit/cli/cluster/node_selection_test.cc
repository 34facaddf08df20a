#include <gtest/gtest.h>

#include "cli/cluster/selection.h"

namespace paddle::cli {
namespace {

using Indices = std::vector<std::size_t>;

ClusterSpec lab() {
  auto cluster = parse_cluster(R"(
name = "lab"
[[node]]
host = "node[01-04].lab"
groups = ["rack1"]
[[node]]
host = "gpu[1-2]"
groups = ["rack1", "gpu"]
)",
                               "lab.toml");
  EXPECT_TRUE(cluster) << cluster.error().message;
  return *std::move(cluster);
}

TEST(NodeSelection, NamesRangesAndGroupsInTheOrderOfTheFileEachOnce) {
  const ClusterSpec cluster = lab();
  EXPECT_EQ(*select_nodes(cluster, ""), (Indices{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(*select_nodes(cluster, "all"), (Indices{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(*select_nodes(cluster, "gpu"), (Indices{4, 5}));
  EXPECT_EQ(*select_nodes(cluster, "@gpu, node02.lab"), (Indices{1, 4, 5}));
  EXPECT_EQ(*select_nodes(cluster, "gpu,gpu2,node[01-02].lab"), (Indices{0, 1, 4, 5}));
}

TEST(NodeSelection, AnExclamationMarkTakesAway) {
  const ClusterSpec cluster = lab();
  EXPECT_EQ(*select_nodes(cluster, "rack1,!gpu"), (Indices{0, 1, 2, 3}));
  EXPECT_EQ(*select_nodes(cluster, "!gpu1,gpu"), (Indices{5}));
  EXPECT_EQ(*select_nodes(cluster, "!node[01-03].lab,!@gpu"), (Indices{3}));
}

TEST(NodeSelection, ListsOfSlurmHostsAndAddressesStandForNodes) {
  const auto cluster = parse_cluster(R"(
[[node]]
host = "node[01-04].lab"
name = "n[1-4]"
address = "10.0.0.[1-4]"
[[node]]
host = "2001:db8::1"
[[node]]
host = "rack[1-2]x[1-2]"
)",
                                     "lab.toml");
  ASSERT_TRUE(cluster) << cluster.error().message;
  EXPECT_EQ(*select_nodes(*cluster, "n[1-2,4]"), (Indices{0, 1, 3}));
  EXPECT_EQ(*select_nodes(*cluster, "node[01,03].lab"), (Indices{0, 2}));
  EXPECT_EQ(*select_nodes(*cluster, "10.0.0.[2-3],n1"), (Indices{0, 1, 2}));
  EXPECT_EQ(*select_nodes(*cluster, "rack[1-2]x[2]"), (Indices{6, 8}));
  for (const char* same : {"2001:db8::1", "[2001:db8::1]", "2001-db8--1"}) {
    EXPECT_EQ(*select_nodes(*cluster, same), (Indices{4})) << same;
  }
  EXPECT_EQ(*select_nodes(*cluster, "!n[1-4],![2001:db8::1]"), (Indices{5, 6, 7, 8}));
  EXPECT_FALSE(select_nodes(*cluster, "[2001:db8::2]"));
}

TEST(NodeSelection, APortOfSshdTellsNodesOfOneAddressApart) {
  const auto cluster = parse_cluster(
      "[[node]]\nhost = \"lab:2221,lab:2222\"\nname = \"n[1-2]\"\n[[node]]\nhost = \"n3\"\n", "l");
  ASSERT_TRUE(cluster) << cluster.error().message;
  EXPECT_EQ(*select_nodes(*cluster, "lab"), (Indices{0, 1}));
  EXPECT_EQ(*select_nodes(*cluster, "lab:2222"), (Indices{1}));
  EXPECT_EQ(*select_nodes(*cluster, "ssh://me@lab:2221,n3:22"), (Indices{0, 2}));
  EXPECT_FALSE(select_nodes(*cluster, "lab:2223"));
}

TEST(NodeSelection, RefusesWhatIsNotThereAndNothing) {
  const ClusterSpec cluster = lab();
  for (const char* bad : {"gpus", "@node01.lab", "node[01-05].lab", "gpu,", "!", "@", "gpu,!gpu",
                          "!all", "node[01-", "node]"}) {
    const auto chosen = select_nodes(cluster, bad);
    ASSERT_FALSE(chosen) << bad;
    EXPECT_EQ(chosen.error().code, Errc::kUsage) << bad;
  }
  EXPECT_NE(select_nodes(cluster, "@gpus").error().message.find("did you mean 'gpu'?"),
            std::string::npos);
}

TEST(NodeSelection, AGroupIsNoNode) {
  for (const char* bad : {R"(groups = ["b"])", R"(groups = ["all"])", R"(groups = ["a b"])"}) {
    const std::string text =
        std::string("[[node]]\nhost = \"a\"\n") + bad + "\n[[node]]\nhost = \"b\"\n";
    EXPECT_FALSE(parse_cluster(text, "lab.toml")) << bad;
  }
  EXPECT_FALSE(parse_cluster("[[node]]\nhost = \"all\"\n", "lab.toml"));
}

}  // namespace
}  // namespace paddle::cli
