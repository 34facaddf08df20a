#include "cli/job/plan.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "cli/job/folders.h"
#include "cli/nodes/ports.h"

namespace paddle::cli {
namespace {

ClusterSpec cluster_of(const std::string& more) {
  auto cluster =
      parse_cluster("name = \"t\"\nports_num = 2\nports_num_for_sparse = 2\n" + more, "t.toml");
  EXPECT_TRUE(cluster) << cluster.error().message;
  return *cluster;
}

ClusterSpec two_hosts() {
  return cluster_of("[[node]]\nhost = \"h[0-1]\"\naddress = \"10.0.0.[1-2]\"\n");
}

Workspace workspace_of(std::size_t trainers) {
  Workspace workspace;
  workspace.path = "/w";
  workspace.common = {"job.toml"};
  workspace.test = {"data/test.txt"};
  for (std::size_t i = 0; i < trainers; ++i)
    workspace.trainer_data.push_back({"data/train-" + std::to_string(i)});
  return workspace;
}

JobPlan plan_of(const ClusterSpec& cluster, std::uint32_t trainers, std::uint32_t pservers,
                const std::vector<std::string>& overrides = {}) {
  const auto placement = place_job(cluster, trainers, pservers);
  EXPECT_TRUE(placement);
  std::vector<std::string> addresses;
  for (const auto& node : cluster.nodes) addresses.push_back(node.address);
  const auto plan = plan_job(cluster, {"j", "bin/paddle-1", overrides}, *placement, addresses,
                             workspace_of(placement->trainers.size()));
  EXPECT_TRUE(plan) << plan.error().message;
  return *plan;
}

bool has(const PlannedProcess& process, const std::string& argument) {
  return std::ranges::find(process.spec.arguments, argument) != process.spec.arguments.end();
}

TEST(JobPlan, PserversOnOneNodeGetSuccessivePorts) {
  const JobPlan plan = plan_of(two_hosts(), 2, 3);
  EXPECT_EQ(plan.pservers[0].port, 7164);
  EXPECT_EQ(plan.pservers[1].port, 7164);
  EXPECT_EQ(plan.pservers[2].port, 7168);
  EXPECT_EQ(plan.pservers[2].node, 0U);
  EXPECT_EQ(plan.pservers[2].spec.log, "jobs/j/node_0/server-1.log");
  EXPECT_TRUE(has(plan.trainers[1], "--pservers=10.0.0.1:7164,10.0.0.2:7164,10.0.0.1:7168"));
  EXPECT_TRUE(has(plan.pservers[2], "--bind=10.0.0.1"));
  EXPECT_TRUE(has(plan.pservers[2], "--num_gradient_servers=2"));
}

TEST(JobPlan, NodesThatShareAnAddressDoNotShareThePorts) {
  const ClusterSpec cluster = cluster_of("[[node]]\nlauncher = \"local\"\ncount = 2\n");
  const JobPlan plan = plan_of(cluster, 4, 2);
  EXPECT_EQ(plan.pservers[0].port, 7164);
  EXPECT_EQ(plan.pservers[1].port, 7168);
  EXPECT_EQ(plan.pservers[1].node, 1U);
  EXPECT_EQ(plan.trainers[2].spec.log, "jobs/j/node_0/train-1.log");
  EXPECT_EQ(plan.trainers[2].metrics, "jobs/j/node_0/metrics-1.jsonl");
}

TEST(JobPlan, ANodesVariablesReachItsProcessesAndItsTrainersDivideTheGpus) {
  const ClusterSpec cluster = cluster_of(
      "env = [\"A=1\"]\n[[node]]\nhost = \"a\"\naddress = \"10.0.0.1\"\nenv = [\"B=2\"]\n"
      "gpus = [\"0\", \"1\", \"2\"]\n[[node]]\nhost = \"b\"\naddress = \"10.0.0.2\"\n");
  const JobPlan plan = plan_of(cluster, 4, 2);
  EXPECT_EQ(plan.pservers[0].spec.environment.at("B"), "2");
  EXPECT_FALSE(plan.pservers[0].spec.environment.contains("CUDA_VISIBLE_DEVICES"));
  EXPECT_FALSE(plan.pservers[1].spec.environment.contains("B"));
  EXPECT_EQ(plan.pservers[1].spec.environment.at("A"), "1");
  EXPECT_EQ(plan.trainers[0].spec.environment.at("CUDA_VISIBLE_DEVICES"), "0");
  EXPECT_EQ(plan.trainers[2].spec.environment.at("CUDA_VISIBLE_DEVICES"), "1,2");
  EXPECT_FALSE(plan.trainers[1].spec.environment.contains("CUDA_VISIBLE_DEVICES"));
  const JobPlan crowded = plan_of(cluster, 10, 1);  // five on each
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(crowded.trainers[2 * i].spec.environment.at("CUDA_VISIBLE_DEVICES"),
              std::to_string(i % 3));
  }
}

TEST(JobPlan, EachNodeGetsItsOwnTrainersDataOnly) {
  const JobPlan plan = plan_of(two_hosts(), 3, 1);
  ASSERT_EQ(plan.files.size(), 2U);
  std::vector<std::string> first, second;
  for (const auto& item : plan.files[0].items) first.push_back(item.remote_path);
  for (const auto& item : plan.files[1].items) second.push_back(item.remote_path);
  const std::string w = "jobs/j/workspace/";
  EXPECT_EQ(first, (std::vector<std::string>{w + "data/test.txt", w + "data/train-0",
                                             w + "data/train-2", w + "job.toml"}));
  EXPECT_EQ(second, (std::vector<std::string>{w + "data/train-1", w + "job.toml"}));
  EXPECT_EQ(plan.files[0].items[1].local_path, "/w/data/train-0");
}

TEST(JobPlan, TheFirstTrainerOfAnotherNodeSavesCopies) {
  const auto copying = [](const ClusterSpec& cluster, std::uint32_t trainers,
                          std::uint32_t copies) {
    const auto placement = place_job(cluster, trainers, 1);
    std::vector<std::string> addresses;
    for (const auto& node : cluster.nodes) addresses.push_back(node.address);
    Workspace workspace = workspace_of(placement->trainers.size());
    workspace.snapshot_copies = copies;
    const auto plan =
        plan_job(cluster, {"j", "bin/paddle-1", {}}, *placement, addresses, workspace);
    std::vector<std::size_t> found;
    for (std::size_t i = 0; i < plan->trainers.size(); ++i) {
      if (has(plan->trainers[i], "--saves_copy")) found.push_back(i);
    }
    return found;
  };
  EXPECT_EQ(copying(two_hosts(), 4, 2), std::vector<std::size_t>{1});
  EXPECT_EQ(copying(two_hosts(), 4, 1), std::vector<std::size_t>{});
  EXPECT_EQ(copying(two_hosts(), 1, 2), std::vector<std::size_t>{});
  const ClusterSpec uneven = cluster_of(
      "[[node]]\nhost = \"a\"\naddress = \"10.0.0.1\"\n"
      "[[node]]\nhost = \"b\"\naddress = \"10.0.0.2\"\nroles = [\"pserver\"]\n"
      "[[node]]\nhost = \"c\"\naddress = \"10.0.0.3\"\n");
  EXPECT_EQ(copying(uneven, 2, 2), std::vector<std::size_t>{1});
  EXPECT_FALSE(copying_trainer({{0, 1}, {1, 1}, {0, 1}})) << "a node of pservers saves nothing";
}

TEST(JobPlan, OverridesAndSecretsReachTheTrainers) {
  const JobPlan plan = plan_of(two_hosts(), 1, 1, {"train.passes=7"});
  EXPECT_TRUE(has(plan.trainers[0], "--set=train.passes=7"));
  EXPECT_TRUE(has(plan.trainers[0], "--key_file={root}/jobs/j/keys/trainer-0"));
  EXPECT_TRUE(has(plan.pservers[0], "--key_file={root}/jobs/j/keys/pserver-0"));
  EXPECT_TRUE(has(plan.pservers[0], "--transport=sealed"));
  EXPECT_EQ(plan.trainers[0].spec.arguments[0], "train");
}

TEST(JobPlan, RolesAreKept) {
  const ClusterSpec cluster = cluster_of(
      "[[node]]\nhost = \"s\"\naddress = \"10.0.0.1\"\nroles = [\"pserver\"]\n"
      "[[node]]\nhost = \"t\"\naddress = \"10.0.0.2\"\nroles = [\"trainer\"]\n");
  const JobPlan plan = plan_of(cluster, 2, 2);
  for (const auto& server : plan.pservers) EXPECT_EQ(server.node, 0U);
  for (const auto& trainer : plan.trainers) EXPECT_EQ(trainer.node, 1U);
  const ClusterSpec no_server = cluster_of("[[node]]\nhost = \"t\"\nroles = [\"trainer\"]\n");
  const auto placement = place_job(no_server, 1, 1);
  ASSERT_FALSE(placement);
  EXPECT_NE(placement.error().message.find("role pserver"), std::string::npos);
}

TEST(JobPlan, DefaultIsOneOnEachNodeAndUnusedNodesAreLeftAlone) {
  const auto all = place_job(two_hosts(), 0, 0);
  EXPECT_EQ(all->trainers.size(), 2U);
  EXPECT_EQ(all->pservers.size(), 2U);
  const auto one = place_job(two_hosts(), 1, 1);
  EXPECT_EQ(one->nodes, std::vector<std::size_t>{0});
}

TEST(JobPlan, ANodeOfMoreCapacityTakesMoreOfBothKinds) {
  const ClusterSpec cluster = cluster_of(
      "[[node]]\nhost = \"a\"\n[[node]]\nhost = \"b\"\ncapacity = 3\n"
      "[[node]]\nhost = \"c\"\nroles = [\"pserver\"]\n");
  using Nodes = std::vector<std::size_t>;
  const auto by_default = place_job(cluster, 0, 0);
  ASSERT_TRUE(by_default);
  EXPECT_EQ(by_default->trainers, (Nodes{0, 1, 1, 1}));
  EXPECT_EQ(by_default->pservers, (Nodes{0, 1, 2}));
  const auto asked = place_job(cluster, 6, 6);
  ASSERT_TRUE(asked);
  EXPECT_EQ(asked->trainers, (Nodes{0, 1, 1, 1, 0, 1}));
  EXPECT_EQ(asked->pservers, (Nodes{0, 1, 2, 1, 1, 0}));
  EXPECT_FALSE(parse_cluster("[[node]]\nhost = \"a\"\ncapacity = 0\n", "t.toml"));
}

TEST(JobPlan, PortsAbove65535AreRefused) {
  const ClusterSpec cluster =
      cluster_of("[[node]]\nhost = \"h\"\naddress = \"10.0.0.1\"\nport = 65530\n");
  EXPECT_TRUE(block_port(cluster, cluster.nodes[0], 0));
  EXPECT_FALSE(block_port(cluster, cluster.nodes[0], 1));
}

TEST(JobPlan, JobNamesAreFolderNames) {
  EXPECT_TRUE(check_job_name("word2vec-20260101-120000"));
  for (const char* bad : {"", "..", ".x", "-x", "a/b", "a b", "a;b"})
    EXPECT_FALSE(check_job_name(bad)) << bad;
}

}  // namespace
}  // namespace paddle::cli
