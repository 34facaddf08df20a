// Programs of the user's own that are started for GPUs, on a machine that has none.
#include <gtest/gtest.h>

#include "tests/e2e/gpu_machine.h"

namespace paddle::test {
namespace {

class GpuLaunch : public testing::Test {
 protected:
  void SetUp() override {
    machine.add_gpu("0000:41:00.0", "GPU-a");
    machine.add_gpu("0000:c1:00.0", "GPU-b");
    cluster.folder().write("own/job.toml", "[trainer]\ncommand = [\"env\"]\n");
    if (!machine.can_be_made()) GTEST_SKIP() << "no mount namespace may be made here";
    ASSERT_EQ(run({"up", "cluster.toml"}).code, 0);
  }

  Outcome run(const std::vector<std::string>& arguments) { return machine.run(arguments); }

  LocalCluster cluster{1};
  GpuMachine machine{cluster, PADDLECTL_PROGRAM};
};

TEST_F(GpuLaunch, ATrainerRunsForEachGpuAndAllSeeBoth) {
  const Outcome trained =
      run({"train", "--gpus", "all", "--pservers", "0", "--name", "job", "own"});
  ASSERT_EQ(trained.code, 0) << trained.output;
  for (const std::string rank : {"0", "1"}) {
    const std::string log =
        TemporaryFolder::read(cluster.folder() / ("output/job/node_0/train" +
                                                  std::string(rank == "0" ? "" : "-1") + ".log"));
    for (const std::string& line :
         {"RANK=" + rank, "LOCAL_RANK=" + rank, std::string("LOCAL_WORLD_SIZE=2"),
          std::string("CUDA_VISIBLE_DEVICES=0,1"), std::string("CUDA_DEVICE_ORDER=PCI_BUS_ID"),
          "FLAGS_selected_gpus=" + rank, "PADDLE_LOCAL_DEVICE_IDS=" + rank,
          std::string("PADDLE_WORLD_DEVICE_IDS=0,1"), std::string("NCCL_SOCKET_IFNAME==lo")}) {
      EXPECT_NE(("\n" + log).find("\n" + line + "\n"), std::string::npos) << line << "\n" << log;
    }
  }
  EXPECT_EQ(run({"teardown", "--yes", "--discard"}).code, 0);
}

TEST_F(GpuLaunch, Trap45StatusShowsWhatTheTrainersGot) {
  const Outcome trained = run({"train", "--gpus", "all", "--pservers", "0", "--name", "job",
                               "--env", "NCCL_DEBUG=WARN", "--env", "API_KEY=secret", "own"});
  ASSERT_EQ(trained.code, 0) << trained.output;
  const Outcome status = run({"status", "job"});
  for (const std::string line : {"CUDA_VISIBLE_DEVICES  0,1        paddlectl  trainer-[0-1]",
                                 "FLAGS_selected_gpus   1          paddlectl  trainer-1",
                                 "NCCL_DEBUG            WARN       --env      trainer-[0-1]",
                                 "NCCL_SOCKET_IFNAME    =lo        paddlectl  trainer-[0-1]"}) {
    EXPECT_TRUE(status.says(line)) << line << "\n" << status.output;
  }
  EXPECT_FALSE(status.says("secret")) << status.output;
  EXPECT_FALSE(run({"status", "job", "--json"}).says("secret"));
  EXPECT_EQ(run({"teardown", "--yes", "--discard"}).code, 0);
}

TEST_F(GpuLaunch, CheckAndTrainKnowWhichGpusThereAre) {
  const Outcome check = run({"check", "--json"});
  EXPECT_EQ(check.code, 0) << check.output;
  EXPECT_TRUE(check.says("\"gpus\": [\"Tesla T4\", \"Tesla T4\"]")) << check.output;
  EXPECT_TRUE(check.says("\"gpu_driver\": \"580.65.06\"")) << check.output;
  const Outcome few = run({"train", "--gpus", "3", "--pservers", "0", "own"});
  EXPECT_EQ(few.code, 2);
  EXPECT_TRUE(few.says("--gpus 3 needs 3 GPUs on each node, but node n-0 has 2")) << few.output;
  const Outcome other = run({"train", "--gpus", "0,2", "--pservers", "0", "own"});
  EXPECT_TRUE(other.says("node n-0 has no GPU 2: it shows 0 to 1")) << other.output;
  EXPECT_EQ(run({"teardown", "--yes", "--discard"}).code, 0);
}

}  // namespace
}  // namespace paddle::test
