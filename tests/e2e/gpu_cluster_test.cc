// The built-in trainer on GPUs, under paddlectl: paddle-gpu is one with cards of host memory.
#include <filesystem>

#include <gtest/gtest.h>

#include "tests/e2e/gpu_machine.h"

namespace paddle::test {
namespace {

namespace fs = std::filesystem;

class GpuCluster : public testing::Test {
 protected:
  void SetUp() override {
    // paddlectl takes the engines that lie beside it.
    fs::create_directories(cluster.folder() / "bin");
    for (const auto& [from, name] : {std::pair(PADDLECTL_PROGRAM, "paddlectl"),
                                     {AGENT_BINARY, "paddlectl-agent"},
                                     {PADDLE_PROGRAM, "paddle"},
                                     {FAKE_GPU_PROGRAM, "paddle-gpu"}}) {
      fs::copy_file(from, cluster.folder() / (std::string("bin/") + name));
    }
    for (const char* gpu : {"0", "1", "2", "3"}) {
      machine.add_gpu(std::string("0000:0") + gpu + ":00.0", std::string("GPU-") + gpu);
    }
    cluster.folder().write(
        "cluster.toml",
        fmt::format(
            "name = \"t\"\nworkdir = \"{}\"\nport = {}\n[[node]]\nname = \"n-0\"\n"
            "launcher = \"local\"\ngpus = [\"0\", \"1\"]\nenv = "
            "[\"PADDLE_FAKE_SERIAL=a\"]\n[[node]]\nname = \"n-1\"\n"
            "launcher = \"local\"\ngpus = [\"2\", \"3\"]\nenv = [\"PADDLE_FAKE_SERIAL=b\"]\n",
            cluster.folder() / "nodes", cluster.first_port()));
    if (!machine.can_be_made()) GTEST_SKIP() << "no mount namespace may be made here";
    cluster.copy_template("word2vec");
    ASSERT_EQ(cluster.prepare("word2vec", {"--minimum", "1"}, chained_sentences(200)).code, 0);
    ASSERT_EQ(machine.run({"up", "cluster.toml"}).code, 0);
  }
  void TearDown() override {
    if (IsSkipped()) return;
    EXPECT_EQ(machine.run({"teardown", "--yes", "--discard"}).code, 0);
  }

  // With two cards on each node.
  Outcome train(std::vector<std::string> more) {
    more.insert(more.begin(), {"train", "--set", "train.passes=2", "--env", "PADDLE_FAKE_CARDS=2"});
    more.emplace_back("word2vec");
    return machine.run(more);
  }
  // Costs of the two differ by rounding alone: the orders of sums are not the same.
  static void expect_alike(const Outcome& a, const Outcome& b) {
    const auto costs = held_out_costs(a.output);
    const auto others = held_out_costs(b.output);
    ASSERT_EQ(costs.size(), 2U) << a.output;
    ASSERT_EQ(others.size(), 2U) << b.output;
    for (std::size_t i = 0; i < costs.size(); ++i) EXPECT_NEAR(costs[i], others[i], 2e-3);
  }

  LocalCluster cluster{2};
  GpuMachine machine{cluster, cluster.folder() / "bin/paddlectl"};
};

TEST_F(GpuCluster, FourGpusOnTwoNodesLearnWhatCpusLearn) {
  const Outcome gpus = train({"--gpus", "all", "--pservers", "2", "--name", "gpus"});
  ASSERT_EQ(gpus.code, 0) << gpus.output;
  const std::string log =
      TemporaryFolder::read(cluster.folder() / "output/gpus/node_1/train-1.log");
  EXPECT_NE(log.find("Fake"), std::string::npos) << "the card is named\n" << log;
  const Outcome cpus = train({"--trainers", "4", "--pservers", "2", "--name", "cpus"});
  ASSERT_EQ(cpus.code, 0) << cpus.output;
  expect_alike(gpus, cpus);
}

TEST_F(GpuCluster, DenseParametersStayOnTheCardsWhileTablesAreOnPservers) {
  const std::string way = "strategy.dense=collective";
  const Outcome gpus = train({"--gpus", "all", "--pservers", "1", "--set", way, "--name", "gpus"});
  ASSERT_EQ(gpus.code, 0) << gpus.output;
  const std::string log = TemporaryFolder::read(cluster.folder() / "output/gpus/node_1/train.log");
  EXPECT_NE(log.find("dense parameters stay on GPU 0 (Fake)"), std::string::npos) << log;
  const Outcome cpus =
      train({"--trainers", "4", "--pservers", "1", "--set", way, "--name", "cpus"});
  ASSERT_EQ(cpus.code, 0) << cpus.output;
  expect_alike(gpus, cpus);
}

TEST_F(GpuCluster, OneGpuHasAllParametersAndItsSnapshotGoesOnOnPservers) {
  const std::string way = "strategy.dense=collective";
  const Outcome several = train({"--gpus", "2", "--pservers", "0", "--set", way});
  EXPECT_EQ(several.code, 2) << several.output;
  EXPECT_TRUE(several.says("--pservers 1")) << several.output;
  const Outcome gpu =
      train({"--gpus", "1", "--trainers", "1", "--pservers", "0", "--set", way, "--name", "gpu"});
  ASSERT_EQ(gpu.code, 0) << gpu.output;
  const std::string log = TemporaryFolder::read(cluster.folder() / "output/gpu/node_0/train.log");
  EXPECT_NE(log.find("table '_proj' is on GPU 0 (Fake)"), std::string::npos) << log;
  const Outcome cpu = train({"--trainers", "1", "--pservers", "1", "--name", "cpu"});
  ASSERT_EQ(cpu.code, 0) << cpu.output;
  expect_alike(gpu, cpu);
  const Outcome on = train({"--trainers", "1", "--pservers", "1", "--set", way, "--set",
                            "train.passes=3", "--resume", "--name", "gpu"});
  EXPECT_EQ(on.code, 0) << on.output;
}

TEST_F(GpuCluster, Trap30ANodeWithoutADriverIsNamedAndSoAreCpus) {
  const Outcome failed = train({"--gpus", "1", "--pservers", "1", "--env",
                                "PADDLE_FAKE_FAILURE=no_driver", "--name", "none"});
  EXPECT_EQ(failed.code, 7) << failed.output;
  EXPECT_TRUE(failed.says("driver")) << failed.output;
  EXPECT_TRUE(failed.says("cpu")) << failed.output;
}

}  // namespace
}  // namespace paddle::test
