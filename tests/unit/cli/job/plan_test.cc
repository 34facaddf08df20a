#include "cli/job/plan.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "base/fd.h"
#include "cli/cluster/ports.h"
#include "cli/job/folders.h"

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
                const std::string& job_toml = "") {
  const auto placement = place_job(cluster, trainers, pservers);
  EXPECT_TRUE(placement);
  std::vector<std::string> addresses;
  for (const auto& node : cluster.nodes) addresses.push_back(node.address);
  const auto plan = plan_job(cluster, {"j", "bin/paddle-1", job_toml}, *placement, {addresses},
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

// One process may open another's GPU only if it sees it (NCCL's peer to peer).
TEST(JobPlan, ANodesVariablesReachItsProcessesAndItsTrainersAllSeeItsGpus) {
  const ClusterSpec cluster = cluster_of(
      "env = [\"A=1\"]\n[[node]]\nhost = \"a\"\naddress = \"10.0.0.1\"\nenv = [\"B=2\"]\n"
      "gpus = [\"0\", \"1\", \"2\"]\n[[node]]\nhost = \"b\"\naddress = \"10.0.0.2\"\n"
      "gpus = [\"4\"]\nenv = [\"CUDA_VISIBLE_DEVICES=5\"]\n");
  const JobPlan plan = plan_of(cluster, 4, 2);
  EXPECT_EQ(plan.pservers[0].spec.environment.at("B"), "2");
  EXPECT_FALSE(plan.pservers[0].spec.environment.contains("CUDA_VISIBLE_DEVICES"));
  EXPECT_FALSE(plan.pservers[1].spec.environment.contains("B"));
  EXPECT_EQ(plan.pservers[1].spec.environment.at("A"), "1");
  for (const std::size_t trainer : {0U, 2U}) {
    EXPECT_EQ(plan.trainers[trainer].spec.environment.at("CUDA_VISIBLE_DEVICES"), "0,1,2");
    EXPECT_EQ(plan.trainers[trainer].spec.defaults.at("CUDA_DEVICE_ORDER"), "PCI_BUS_ID");
  }
  EXPECT_EQ(plan.trainers[1].spec.environment.at("CUDA_VISIBLE_DEVICES"), "5") << "the user's own";
}

// Those of --env come before those of the cluster file, and both before ours; a login's are kept
// where ours are defaults.
TEST(JobPlan, Trap45TheUsersVariablesWinOverOurs) {
  const ClusterSpec cluster = cluster_of(
      "[[node]]\nhost = \"a\"\naddress = \"10.0.0.1\"\n"
      "env = [\"NCCL_HOSTID=cluster\", \"NCCL_DEBUG=cluster\", \"CUDA_VISIBLE_DEVICES=3\"]\n");
  const auto placement = place_on_gpus(cluster, {{"0,1", {0, 1}, {"a", "b"}}}, 0, 0);
  ASSERT_TRUE(placement) << placement.error().message;
  Workspace workspace = workspace_of(2);
  workspace.command = {"./train"};
  JobRequest request{"j", "bin/paddle-1", {}};
  request.environment = {{"NCCL_DEBUG", "line"}, {"CUDA_VISIBLE_DEVICES", "5,6"}};
  const auto plan = plan_job(cluster, request, *placement, {{"10.0.0.1"}, {"eth0"}}, workspace);
  ASSERT_TRUE(plan) << plan.error().message;
  for (const PlannedProcess& trainer : plan->trainers) {
    const auto& variables = trainer.spec.environment;
    EXPECT_EQ(variables.at("NCCL_DEBUG"), "line");
    EXPECT_EQ(variables.at("NCCL_HOSTID"), "cluster");
    EXPECT_EQ(variables.at("CUDA_VISIBLE_DEVICES"), "5,6");
    for (const char* const name : {"NCCL_SOCKET_IFNAME", "NCCL_HOSTID", "CUDA_DEVICE_ORDER"}) {
      EXPECT_TRUE(trainer.spec.defaults.contains(name)) << name;
    }
    const auto& sources = trainer.spec.sources;
    EXPECT_EQ(sources.at("NCCL_DEBUG"), remote::VariableSource::kCommandLine);
    EXPECT_EQ(sources.at("NCCL_HOSTID"), remote::VariableSource::kClusterFile);
    EXPECT_EQ(sources.at("CUDA_VISIBLE_DEVICES"), remote::VariableSource::kCommandLine);
    EXPECT_FALSE(sources.contains("FLAGS_selected_gpus")) << "ours";
    EXPECT_FALSE(variables.contains("NCCL_SOCKET_IFNAME"));
  }
}

// The content is that of the source tree, so it is of the same release as paddlectl.
TEST(JobPlan, OwnProgramsGetThePythonModuleOnTheNodesOfTrainers) {
  const ClusterSpec cluster = two_hosts();
  const auto placement = place_job(cluster, 1, 2);
  ASSERT_TRUE(placement);
  const auto modules_of = [](const JobPlan& plan) {
    std::map<std::size_t, std::map<std::string, std::string>> found;
    for (const NodeFiles& node : plan.files) {
      for (const remote::PushItem& item : node.items) {
        if (item.remote_path.starts_with("jobs/j/python/paddlectl/"))
          found[node.node][item.remote_path.substr(24)] = item.content.value_or("");
      }
    }
    return found;
  };
  Workspace workspace = workspace_of(1);
  const JobRequest request{"j", "bin/paddle-1", {}};
  const NodeNetwork network{{"10.0.0.1", "10.0.0.2"}};
  const auto built_in = plan_job(cluster, request, *placement, network, workspace);
  ASSERT_TRUE(built_in);
  EXPECT_TRUE(modules_of(*built_in).empty());
  EXPECT_TRUE(built_in->trainers[0].spec.first_folders.empty());
  workspace.command = {"python3", "train.py"};
  const auto plan = plan_job(cluster, request, *placement, network, workspace);
  ASSERT_TRUE(plan) << plan.error().message;
  auto modules = modules_of(*plan);
  ASSERT_EQ(modules.size(), 1U) << "the second node has a pserver only";
  EXPECT_TRUE(modules[0].contains("__init__.py"));
  for (const auto& [name, content] : modules[0]) {
    const auto source = read_file(std::string(PADDLE_SOURCE_DIR "/python/paddlectl/") + name);
    ASSERT_TRUE(source) << name;
    EXPECT_EQ(content, *source) << name;
  }
  EXPECT_EQ(plan->trainers[0].spec.first_folders.at("PYTHONPATH"), "{root}/jobs/j/python");
  EXPECT_FALSE(plan->trainers[0].spec.environment.contains("PYTHONPATH"));
  EXPECT_TRUE(plan->pservers[0].spec.first_folders.empty());
}

TEST(JobPlan, WithGpusEachTrainerIsToldItsOwn) {
  const ClusterSpec cluster = two_hosts();
  const auto placement =
      place_on_gpus(cluster, {{"0,1", {0, 1}, {"a", "b"}}, {"6,3,5", {2, 0}, {"c", "d"}}}, 0, 0);
  ASSERT_TRUE(placement) << placement.error().message;
  Workspace workspace = workspace_of(4);
  workspace.command = {"./train"};
  JobRequest request{"j", "bin/paddle-1", {}};
  request.environment = {{"PADDLE_LOCAL_DEVICE_IDS", "mine"}};
  const auto plan = plan_job(cluster, request, *placement, {{"10.0.0.1", "10.0.0.2"}}, workspace);
  ASSERT_TRUE(plan) << plan.error().message;
  const std::vector<std::string> selected{"0", "1", "2", "0"}, local{"0", "1", "0", "1"};
  for (std::size_t i = 0; i < selected.size(); ++i) {
    const auto& variables = plan->trainers[i].spec.environment;
    EXPECT_EQ(plan->trainers[i].node, i / 2) << "ranks of a node follow each other";
    EXPECT_EQ(variables.at("CUDA_VISIBLE_DEVICES"), i < 2 ? "0,1" : "6,3,5");
    EXPECT_EQ(variables.at("FLAGS_selected_gpus"), selected[i]);
    EXPECT_EQ(variables.at("LOCAL_RANK"), local[i]);
    EXPECT_EQ(variables.at("LOCAL_WORLD_SIZE"), "2");
    EXPECT_EQ(variables.at("PADDLE_LOCAL_DEVICE_IDS"), "mine");
    EXPECT_EQ(variables.at("PADDLE_WORLD_DEVICE_IDS"), "0,1,2,0");
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
        plan_job(cluster, {"j", "bin/paddle-1", {}}, *placement, {addresses}, workspace);
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

TEST(JobPlan, TrainersThatLackStatisticsReadThoseOfTheJob) {
  Workspace workspace = workspace_of(2);
  for (const bool lacks : {false, true}) {
    workspace.lacks_statistics = lacks;
    const auto plan =
        plan_job(two_hosts(), {"j", "bin/paddle-1", {}}, *place_job(two_hosts(), 2, 1),
                 {{"10.0.0.1", "10.0.0.2"}}, workspace);
    ASSERT_TRUE(plan) << plan.error().message;
    for (const PlannedProcess& trainer : plan->trainers) {
      EXPECT_EQ(trainer.spec.directory, "jobs/j/workspace");
      EXPECT_EQ(has(trainer, "--set=data.statistics=../statistics.json"), lacks);
    }
  }
}

TEST(JobPlan, SecretsReachTheProcesses) {
  const JobPlan plan = plan_of(two_hosts(), 1, 1);
  EXPECT_TRUE(has(plan.trainers[0], "--key_file={root}/jobs/j/keys/trainer-0"));
  EXPECT_TRUE(has(plan.pservers[0], "--key_file={root}/jobs/j/keys/pserver-0"));
  EXPECT_TRUE(has(plan.pservers[0], "--transport=sealed"));
  EXPECT_EQ(plan.trainers[0].spec.arguments[0], "train");
}

TEST(JobPlan, EachNodeGetsTheResolvedJobTomlWhateverTheWorkspaceHasThere) {
  const JobPlan plan = plan_of(two_hosts(), 2, 1, "[train]\npasses = 7\n");
  for (const NodeFiles& node : plan.files) {
    const auto job =
        std::ranges::find(node.items, "jobs/j/workspace/job.toml", &remote::PushItem::remote_path);
    ASSERT_NE(job, node.items.end());
    EXPECT_EQ(job->content, "[train]\npasses = 7\n");
    for (const remote::PushItem& item : node.items)
      EXPECT_EQ(item.content.has_value(), &item == &*job) << item.remote_path;
  }
  EXPECT_TRUE(has(plan.trainers[1], "--config=job.toml"));

  Workspace linked = workspace_of(1);
  linked.common.clear();
  linked.links = {{"job.toml", "jobs/first.toml"}, {"other.toml", "job.toml"}};
  const auto of_link = plan_job(two_hosts(), {"j", "bin/paddle-1", "text"},
                                *place_job(two_hosts(), 1, 1), {{"10.0.0.1", "10.0.0.2"}}, linked);
  ASSERT_TRUE(of_link) << of_link.error().message;
  std::size_t files = 0;
  for (const remote::PushItem& item : of_link->files[0].items) {
    files += item.remote_path == "jobs/j/workspace/job.toml" ? 1 : 0;
    EXPECT_EQ(item.link, item.remote_path.ends_with("other.toml") ? "job.toml" : "");
  }
  EXPECT_EQ(files, 1U);
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

TEST(JobPlan, AProgramOfTheUsersOwnNeedsNoPservers) {
  const ClusterSpec cluster = cluster_of(
      "[[node]]\nhost = \"a\"\naddress = \"10.0.0.1\"\nroles = [\"trainer\"]\n"
      "[[node]]\nhost = \"b\"\naddress = \"10.0.0.2\"\n");
  const auto placement = place_job(cluster, 2, 0);
  ASSERT_TRUE(placement) << placement.error().message;
  EXPECT_TRUE(placement->pservers.empty());
  Workspace workspace = workspace_of(2);
  workspace.command = {"./train"};
  const auto plan = plan_job(cluster, {"j", "bin/paddle-1", {}}, *placement,
                             {{"10.0.0.1", "10.0.0.2"}}, workspace);
  ASSERT_TRUE(plan) << plan.error().message;
  const auto& variables = plan->trainers[1].spec.environment;
  EXPECT_EQ(variables.at("PADDLE_TRAINER_ENDPOINTS"), "10.0.0.1:7164,10.0.0.2:7164");
  EXPECT_EQ(variables.at("PADDLE_INIT_NUM_GRADIENT_SERVERS"), "2");
  for (const char* name : {"PADDLE_INIT_PSERVERS", "PADDLE_INIT_PORT", "PADDLE_INIT_PORTS_NUM",
                           "PADDLE_INIT_PORTS_NUM_FOR_SPARSE", "PADDLE_PSERVERS_IP_PORT_LIST"}) {
    EXPECT_FALSE(variables.contains(name)) << name;
  }
}

TEST(JobPlan, TrainersOfACollectiveJobAreToldOfEachOther) {
  const auto placement = place_job(two_hosts(), 3, 0);
  ASSERT_TRUE(placement);
  Workspace workspace = workspace_of(3);
  workspace.has_group = true;
  const auto plan = plan_job(two_hosts(), {"j", "bin/paddle-1", {}}, *placement,
                             {{"10.0.0.1", "10.0.0.2"}}, workspace);
  ASSERT_TRUE(plan) << plan.error().message;
  ASSERT_EQ(plan->trainers[2].spec.ports.size(), 1U);
  EXPECT_EQ(plan->trainers[2].spec.ports[0].address, "10.0.0.1");
  for (const PlannedProcess& trainer : plan->trainers) {
    const auto& arguments = trainer.spec.arguments;
    const auto told = std::ranges::find_if(
        arguments, [](const std::string& one) { return one.starts_with("--trainers="); });
    ASSERT_NE(told, arguments.end());
    EXPECT_EQ(*told, "--trainers=10.0.0.1:7164,10.0.0.2:7164," +
                         endpoint_text("10.0.0.1", plan->trainers[2].spec.ports[0].first));
    const bool has_pservers = std::ranges::any_of(
        arguments, [](const std::string& one) { return one.starts_with("--pservers=1"); });
    EXPECT_FALSE(has_pservers);
  }
}

TEST(JobPlan, TrainersOfNodeGroupsAreToldOfEachOtherAndOfPservers) {
  const auto placement = place_job(two_hosts(), 3, 1);
  ASSERT_TRUE(placement);
  Workspace workspace = workspace_of(3);
  workspace.has_node_groups = true;
  const auto plan = plan_job(two_hosts(), {"j", "bin/paddle-1", {}}, *placement,
                             {{"10.0.0.1", "10.0.0.2"}}, workspace);
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_TRUE(plan->trainers_talk);
  for (const PlannedProcess& trainer : plan->trainers) {
    EXPECT_FALSE(trainer.spec.ports.empty());
    for (const std::string flag : {"--trainers=10.0.0.1:", "--pservers=10.0.0.", "--ports_num=2"}) {
      EXPECT_TRUE(std::ranges::any_of(trainer.spec.arguments, [&](const std::string& one) {
        return one.starts_with(flag);
      })) << flag;
    }
  }
}

// Ranks go round the nodes; torch's names are those of a launcher of its own.
TEST(JobPlan, TrainersOfTheUsersOwnAreToldWhereTheyMeetAndWhichTheyAreOnTheirNode) {
  const ClusterSpec cluster = cluster_of(
      "env = [\"MASTER_PORT=29500\"]\n[[node]]\nhost = \"h[0-1]\"\naddress = \"10.0.0.[1-2]\"\n");
  const auto placement = place_job(cluster, 3, 1);
  Workspace workspace = workspace_of(3);
  workspace.command = {"./train"};
  JobRequest request{"j", "bin/paddle-1", {}};
  const NodeNetwork network{{"10.0.0.1", "10.0.0.2"}, {"ib0", ""}};
  request.environment = {{"RANK", "mine"}};
  const auto plan = plan_job(cluster, request, *placement, network, workspace);
  ASSERT_TRUE(plan) << plan.error().message;
  const auto value = [&](std::size_t trainer, const std::string& name) {
    return plan->trainers[trainer].spec.environment.at(name);
  };
  for (const std::size_t trainer : {0U, 1U, 2U}) {
    EXPECT_EQ(value(trainer, "MASTER_ADDR"), "10.0.0.1");
    EXPECT_EQ(value(trainer, "MASTER_PORT"), "29500") << "that of the cluster file";
    EXPECT_EQ(value(trainer, "RANK"), "mine") << "that of the command line";
    EXPECT_EQ(value(trainer, "WORLD_SIZE"), "3");
    EXPECT_EQ(value(trainer, "LOCAL_RANK"), trainer == 2 ? "1" : "0");
    EXPECT_EQ(value(trainer, "PADDLE_RANK_IN_NODE"), trainer == 2 ? "1" : "0");
    EXPECT_EQ(value(trainer, "LOCAL_WORLD_SIZE"), trainer == 1 ? "1" : "2");
  }
  ASSERT_EQ(plan->trainers[0].spec.ports.size(), 2U);
  EXPECT_EQ(plan->trainers[0].spec.ports[1].first, 7170) << "behind both trainers of the node";
  using Variables = std::map<std::string, std::string>;
  EXPECT_EQ(plan->trainers[2].spec.defaults, (Variables{{"NCCL_HOSTID", "10.0.0.1"},
                                                        {"NCCL_RAS_ENABLE", "0"},
                                                        {"NCCL_SOCKET_IFNAME", "=ib0"},
                                                        {"GLOO_SOCKET_IFNAME", "ib0"}}));
  EXPECT_EQ(plan->trainers[1].spec.defaults,
            (Variables{{"NCCL_HOSTID", "10.0.0.2"}, {"NCCL_RAS_ENABLE", "0"}}));
  EXPECT_TRUE(plan->pservers[0].spec.defaults.empty());
}

TEST(JobPlan, DefaultIsOneOnEachNodeAndUnusedNodesAreLeftAlone) {
  const auto all = place_job(two_hosts(), 0, std::nullopt);
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
  const auto by_default = place_job(cluster, 0, std::nullopt);
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
  EXPECT_TRUE(assign_ports(cluster, {0}, {0}, {"10.0.0.1"}));
  const auto trainers = assign_ports(cluster, {0}, {0, 0, 0}, {"10.0.0.1"});
  ASSERT_FALSE(trainers);
  EXPECT_EQ(trainers.error().message, "the ports of trainer-2 on h end above 65535");
  EXPECT_FALSE(assign_ports(cluster, {0, 0}, {}, {"10.0.0.1"}));
}

TEST(JobPlan, JobNamesAreFolderNames) {
  EXPECT_TRUE(check_job_name("word2vec-20260101-120000"));
  for (const char* bad : {"", "..", ".x", "-x", "a/b", "a b", "a;b"})
    EXPECT_FALSE(check_job_name(bad)) << bad;
}

// It starts `paddle client`, which keeps its last push there.
TEST(JobPlan, AProgramWithPserversHasMemoryThatOutlivesItUnderRestarts) {
  const auto keeps_memory = [](std::uint32_t pservers, std::uint32_t restarts) {
    const auto placement = place_job(two_hosts(), 1, pservers);
    EXPECT_TRUE(placement);
    Workspace workspace = workspace_of(1);
    workspace.command = {"./train"};
    JobRequest request{"j", "bin/paddle-1", {}};
    request.restarts = restarts;
    const auto plan =
        plan_job(two_hosts(), request, *placement, {{"10.0.0.1", "10.0.0.2"}}, workspace);
    EXPECT_TRUE(plan) << plan.error().message;
    return plan->trainers.front().spec.keeps_memory;
  };
  EXPECT_TRUE(keeps_memory(1, 2));
  EXPECT_FALSE(keeps_memory(0, 2));
  EXPECT_FALSE(keeps_memory(1, 0));
}

}  // namespace
}  // namespace paddle::cli
