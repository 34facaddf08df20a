#include "cli/nodes/ports.h"

#include <gtest/gtest.h>

#include "tests/support/fake_cluster.h"

namespace paddle::cli {
namespace {

ClusterSpec three_nodes() {
  auto cluster = parse_cluster(
      "port = 7164\nports_num = 2\nports_num_for_sparse = 2\n[[node]]\nhost = \"a\"\n"
      "[[node]]\nhost = \"b\"\nroles = [\"trainer\"]\n[[node]]\nhost = \"c\"\n",
      "t.toml");
  EXPECT_TRUE(cluster);
  return *cluster;
}

TEST(PserverOrdinals, CountTheNodesOfOneAddressThatRunPservers) {
  const ClusterSpec cluster = three_nodes();
  using Ordinals = std::vector<std::size_t>;
  EXPECT_EQ(pserver_ordinals(cluster, {"x", "x", "x"}), (Ordinals{0, 0, 1})) << "b runs none";
  EXPECT_EQ(pserver_ordinals(cluster, {"x", "x", "y"}), (Ordinals{0, 0, 0}));
  EXPECT_EQ(pserver_ordinals(cluster, {"", "", ""}), (Ordinals{0, 0, 0})) << "not known";
}

TEST(JobOnPort, IsThatOfARunningProcessOnly) {
  remote::ProcessStatus process;
  process.job = "j";
  process.pid = 12;
  process.state = remote::ProcessState::kRunning;
  EXPECT_EQ(job_on_port({7164, false, "pid 12 (paddle)"}, {{process}}), "j");
  EXPECT_EQ(job_on_port({7164, false, "pid 123 (nginx)"}, {{process}}), "");
  EXPECT_EQ(job_on_port({7164, false, ""}, {{process}}), "");
  process.state = remote::ProcessState::kExited;
  EXPECT_EQ(job_on_port({7164, false, "pid 12 (paddle)"}, {{process}}), "")
      << "a process number is used again";
}

TEST(NodePorts, TellAJobFromAStranger) {
  FakeCluster fake(1);
  ClusterSession session = fake.session();
  Member& member = session.members().front();
  const auto look = [&] { return *look_at_ports(fake.cluster, member, "10.0.0.1", 1); };
  const std::uint16_t first = look().first;
  EXPECT_EQ(first, fake.cluster.nodes[0].port + fake.cluster.block()) << "the second block";
  EXPECT_EQ(look().last - first + 1, fake.cluster.block());
  EXPECT_TRUE(look().first_is_free);
  EXPECT_TRUE(look().text().ends_with(" free"));
  remote::ProcessStatus process;
  process.pid = 12;
  process.job = "j";
  process.state = remote::ProcessState::kRunning;
  fake.node(0).processes = {process};
  fake.node(0).taken_ports[first] = "pid 12 (paddle)";
  EXPECT_FALSE(look().first_is_free);
  EXPECT_TRUE(look().text().ends_with(" in use by a job")) << look().text();
  EXPECT_FALSE(look().taken);
  const auto last = static_cast<std::uint16_t>(first + fake.cluster.block() - 1);
  fake.node(0).taken_ports[last] = "pid 9 (nginx)";
  ASSERT_TRUE(look().taken);
  EXPECT_EQ(look().taken->message,
            "node n-0: port " + std::to_string(last) + " on 10.0.0.1 is taken by pid 9 (nginx)");
}

TEST(DescribeGpus, CountsEachKind) {
  EXPECT_EQ(describe_gpus({}), "none");
  EXPECT_EQ(describe_gpus({"T4", "H100", "T4"}), "1x H100, 2x T4");
}

}  // namespace
}  // namespace paddle::cli
