#include "cli/cluster/ports.h"

#include <fmt/format.h>
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

TEST(FirstBlocks, OfNodesThatShareAnAddressFollowEachOther) {
  const ClusterSpec cluster = three_nodes();
  const auto ports = [&](const std::vector<std::string>& addresses) {
    std::vector<std::uint16_t> found;
    for (const auto& block : first_blocks(cluster, addresses)) found.push_back(block->first);
    return found;
  };
  using Ports = std::vector<std::uint16_t>;
  EXPECT_EQ(ports({"x", "x", "x"}), (Ports{7164, 7164, 7168})) << "b runs none";
  EXPECT_EQ(ports({"x", "x", "y"}), (Ports{7164, 7164, 7164}));
  EXPECT_EQ(ports({"", "", ""}), (Ports{7164, 7164, 7164})) << "not known";
}

TEST(AssignPorts, TrainersComeAfterTheLastPserverOfTheirAddress) {
  const ClusterSpec cluster = three_nodes();
  const auto ports = assign_ports(cluster, {0, 2, 0}, {0, 1, 1}, {"x", "y", "x"});
  ASSERT_TRUE(ports);
  EXPECT_EQ(ports->pservers[2].first, 7172);
  EXPECT_EQ(ports->trainers[0].first, 7176) << "behind the blocks of both nodes";
  EXPECT_EQ(ports->trainers[1].first, 7164) << "another address";
  EXPECT_EQ(ports->trainers[2].first, 7165);
  EXPECT_EQ(ports->master->address, "x") << "where trainer 0 is";
  EXPECT_EQ(ports->master->first, 7177);
  EXPECT_EQ(ports->span(), 14U);
  EXPECT_FALSE(assign_ports(cluster, {0}, {}, {"x", "y", "x"})->master) << "nobody listens";
}

// Nodes of one machine may begin at ports of their own.
TEST(AssignPorts, NoPortIsHandedOutTwiceWhereNodesOfOneAddressBeginElsewhere) {
  ClusterSpec cluster = three_nodes();
  cluster.nodes[2].port = 7166;
  const auto ports = assign_ports(cluster, {0, 2}, {0, 2}, {"x", "x", "x"});
  ASSERT_TRUE(ports);
  EXPECT_EQ(ports->pservers[1].first, 7168);
  EXPECT_EQ(ports->trainers[0].first, 7172);
  EXPECT_EQ(ports->trainers[1].first, 7173);
  EXPECT_EQ(ports->master->first, 7174);
}

TEST(Joined, AreRangesThatFollowEachOtherOnOneAddress) {
  const auto text = [](const std::vector<remote::PortRange>& ranges, std::size_t size_max) {
    std::string all;
    for (const auto& range : joined(ranges, size_max))
      all += fmt::format("{}:{}+{} ", range.address, range.first, range.count);
    return all;
  };
  EXPECT_EQ(text({{"x", 14, 1}, {"x", 10, 4}, {"y", 15, 1}, {"x", 16, 2}}, 9),
            "x:10+5 x:16+2 y:15+1 ");
  EXPECT_EQ(text({{"x", 10, 2}, {"x", 12, 2}, {"x", 14, 2}}, 4), "x:10+4 x:14+2 ");
}

TEST(JobOnPorts, IsTheRunningOneThatHasOneOfThem) {
  remote::ProcessStatus process;
  process.job = "j";
  process.state = remote::ProcessState::kRunning;
  process.ports = {{"x", 10, 4}};
  const auto job = [&](const remote::PortRange& range) {
    return job_on_ports({{range}}, {{process}});
  };
  EXPECT_EQ(job({"x", 13, 1}), "j");
  EXPECT_EQ(job({"x", 8, 3}), "j");
  EXPECT_EQ(job({"x", 14, 4}), "");
  EXPECT_EQ(job({"x", 6, 4}), "");
  EXPECT_EQ(job({"y", 10, 4}), "");
  process.state = remote::ProcessState::kExited;
  EXPECT_EQ(job({"x", 10, 4}), "");
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
  constexpr std::uint16_t first = 7166;
  const auto look = [&] {
    return *look_at_ports(fake.cluster, member, {"10.0.0.1", first, fake.cluster.block()});
  };
  EXPECT_EQ(look().first, first);
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

TEST(NodePorts, OfATakenBlockTheHintHasTheNextThatIsFree) {
  FakeCluster fake(1);
  fake.cluster.ports_num = 2;
  fake.cluster.ports_num_for_sparse = 1;
  fake.cluster.nodes[0].port = 7164;
  ClusterSession session = fake.session();
  const auto hint = [&](std::size_t ordinal) {
    const auto first = static_cast<std::uint16_t>(7164 + ordinal * fake.cluster.block());
    return look_at_ports(fake.cluster, session.members().front(),
                         {"10.0.0.1", first, fake.cluster.block()})
        ->taken->hint;
  };
  for (const auto port : std::vector<std::uint16_t>{7165, 7169, 7171})
    fake.node(0).taken_ports[port] = "pid 9 (x)";
  EXPECT_EQ(hint(0),
            "end that program, or set another `port` for this node in the cluster file: with `port "
            "= 7166` the node uses 7166-7168, the next free ports");
  EXPECT_EQ(hint(1),
            "end that program, or set another `port` for this node in the cluster file: with `port "
            "= 7169` the node uses 7172-7174, the next free ports")
      << "the second block of the address";
  for (std::uint16_t port = 7164; port < 7500; ++port) fake.node(0).taken_ports[port] = "";
  EXPECT_EQ(hint(0), "end that program, or set another `port` for this node in the cluster file");
}

}  // namespace
}  // namespace paddle::cli
