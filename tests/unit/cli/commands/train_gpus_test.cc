// train --gpus: which programs start where.
#include "base/version.h"
#include "tests/unit/cli/commands/commands_fixture.h"

namespace paddle::cli {
namespace {

TEST_F(CommandsTest, GpusStartsATrainerOnEach) {
  write("w/job.toml", "[trainer]\ncommand = [\"./train\"]\n");
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  nodes_[0].gpus = {{"T4", "GPU-a"}, {"T4", "GPU-b"}};
  EXPECT_EQ(run({"plan", "--gpus", "all", "--pservers", "0", "w"}), 2);
  EXPECT_TRUE(err_has("no GPU was found on node n-1")) << err_.str();
  nodes_[1].gpus = {{"T4", "GPU-b"}};
  EXPECT_EQ(run({"plan", "--gpus", "all", "--pservers", "0", "w"}), 2);
  EXPECT_TRUE(err_has("nodes n-0 and n-1 share one GPU, GPU-b, which can have only one trainer"))
      << err_.str();
  nodes_[1].gpus = {{"T4", "GPU-c"}};
  EXPECT_EQ(run({"plan", "--gpus", "all", "--pservers", "0", "w"}), 0) << err_.str();
  EXPECT_EQ(out_.str(),
            "trainer-0     n-0                 ./train, on GPU 0 of 0,1\n"
            "trainer-1     n-0                 ./train, on GPU 1 of 0,1\n"
            "trainer-2     n-1                 ./train, on GPU 0 of 0\n");
  ASSERT_EQ(run({"train", "--gpus", "1", "--pservers", "0", "--name", "job1", "--env",
                 "CUDA_VISIBLE_DEVICES=0", "w"}),
            0)
      << err_.str();
  const auto& variables = nodes_[1].specs["trainer-1"].environment;
  EXPECT_EQ(variables.at("CUDA_VISIBLE_DEVICES"), "0");
  EXPECT_EQ(variables.at("FLAGS_selected_gpus"), "0");
  EXPECT_EQ(nodes_[1].specs["trainer-1"].defaults.at("NCCL_SOCKET_IFNAME"), "=lo");
}

class BuiltInOnGpus : public CommandsTest {
 protected:
  void SetUp() override {
    CommandsTest::SetUp();
    ASSERT_EQ(run({"up", "c.toml"}), 0);
    nodes_[0].gpus = {{"T4", "GPU-a"}, {"T4", "GPU-b"}};
    nodes_[1].gpus = {{"T4", "GPU-c"}};
  }
  void write_gpu_engine(const std::string& version) {
    write("paddle-gpu", "#!/bin/sh\necho 'paddlectl engine " + version + ", compiled with'\n");
    fs::permissions(folder_ + "/paddle-gpu", fs::perms::owner_all);
  }
  static std::size_t engines_of(const FakeNode& node) {
    return static_cast<std::size_t>(std::ranges::count_if(
        node.files, [](const auto& file) { return file.first.starts_with("bin/paddle-"); }));
  }
};

TEST_F(BuiltInOnGpus, TrainersArePaddleGpuAndItIsPushedWhereTheyRunAlone) {
  write_gpu_engine(kProgramVersion);
  ASSERT_EQ(run({"train", "--gpus", "2", "--on", "n-0", "--pservers", "1", "--name", "job1", "w"}),
            0)
      << err_.str();
  const remote::ProcessSpec& server = nodes_[0].specs["pserver-0"];
  const remote::ProcessSpec& trainer = nodes_[0].specs["trainer-1"];
  EXPECT_NE(server.program, trainer.program);
  EXPECT_TRUE(nodes_[0].files.contains(trainer.program)) << trainer.program;
  EXPECT_FALSE(nodes_[1].files.contains(trainer.program));
  EXPECT_EQ(trainer.environment.at("FLAGS_selected_gpus"), "1");
  EXPECT_EQ(trainer.environment.at("PADDLE_INIT_USE_GPU"), "1");
  EXPECT_EQ(trainer.environment.at("CUDA_VISIBLE_DEVICES"), "0,1");
  EXPECT_FALSE(server.environment.contains("PADDLE_INIT_USE_GPU"));
}

TEST_F(BuiltInOnGpus, ANodeThatHasOnlyPserversDoesNotGetIt) {
  write_gpu_engine(kProgramVersion);
  write("c.toml",
        "name = \"t\"\n[[node]]\nname = \"n-0\"\nlauncher = \"local\"\nroles = [\"trainer\"]\n"
        "[[node]]\nname = \"n-1\"\nlauncher = \"local\"\nroles = [\"pserver\"]\n");
  ASSERT_EQ(run({"train", "--gpus", "1", "--name", "job1", "w"}), 0) << err_.str();
  EXPECT_EQ(engines_of(nodes_[0]), 2U);
  EXPECT_EQ(engines_of(nodes_[1]), 1U);
}

TEST_F(BuiltInOnGpus, OneHasTheTablesOfACollectiveJobInItsMemoryAndSeveralHaveNot) {
  write_gpu_engine(kProgramVersion);
  write("w/job.toml",
        "[data]\ntrain = \"train.txt\"\nformat = \"multislot\"\n[[data.slot]]\nname = \"y\"\ntype "
        "= \"float\"\n"
        "[[data.slot]]\nname = \"id\"\ntype = \"id\"\n"
        "[[layer]]\nname = \"table\"\ntype = \"embedding\"\ninput = [\"id\"]\nsize = 1\n"
        "weight = { sparse = true }\n"
        "[[layer]]\nname = \"cost\"\ntype = \"squared_error\"\ninput = [\"table\"]\n"
        "label = \"y\"\n[strategy]\ndense = \"collective\"\n");
  write("w/train.txt", "1 2 1 5\n");
  EXPECT_EQ(run({"train", "--gpus", "all", "--pservers", "0", "--name", "job1", "w"}), 2);
  EXPECT_TRUE(err_has("--trainers 1 --gpus 1, which has them on a GPU")) << err_.str();
  EXPECT_EQ(run({"train", "--pservers", "0", "--trainers", "1", "--name", "job1", "w"}), 2);
  ASSERT_EQ(
      run({"train", "--gpus", "1", "--trainers", "1", "--pservers", "0", "--name", "job1", "w"}), 0)
      << err_.str();
  EXPECT_TRUE(nodes_[0].specs.contains("trainer-0"));
  EXPECT_FALSE(nodes_[0].specs.contains("pserver-0"));
}

TEST_F(BuiltInOnGpus, AJobWithoutGpusDoesNotPushIt) {
  write_gpu_engine(kProgramVersion);
  ASSERT_EQ(run({"train", "--name", "job1", "w"}), 0) << err_.str();
  EXPECT_EQ(engines_of(nodes_[0]), 1U);
}

TEST_F(BuiltInOnGpus, WithoutPaddleGpuNothingStartsAndTheWayToCpusIsNamed) {
  EXPECT_EQ(run({"train", "--gpus", "x", "w"}), 2);
  EXPECT_TRUE(err_has("--gpus: 'x' is not a GPU selection")) << err_.str();
  for (const char* command : {"plan", "train"}) {
    EXPECT_EQ(run({command, "--on", "n-0", "--gpus", "all", "w"}), 2);
    EXPECT_TRUE(err_has("--gpus needs paddle-gpu beside paddlectl")) << err_.str();
    EXPECT_TRUE(err_has("hint: leave --gpus out to train on CPUs")) << err_.str();
  }
  EXPECT_TRUE(nodes_[0].processes.empty());
}

TEST_F(BuiltInOnGpus, APaddleGpuOfAnotherReleaseIsRefused) {
  write_gpu_engine("0.0.7");
  EXPECT_EQ(run({"train", "--on", "n-0", "--gpus", "all", "w"}), 3);
  EXPECT_TRUE(err_has("paddle-gpu is version 0.0.7, but paddlectl is version ")) << err_.str();
  EXPECT_TRUE(nodes_[0].processes.empty());
}

TEST_F(BuiltInOnGpus, Trap44ANodeWithAnOldLibcIsRefusedAndTheWayToCpusIsNamed) {
  write_gpu_engine(kProgramVersion);
  nodes_[1].glibc = "2.31";
  for (const char* command : {"plan", "train"}) {
    EXPECT_EQ(run({command, "--gpus", "all", "w"}), 7);
    EXPECT_TRUE(err_has("node n-1: its glibc is 2.31, but paddle-gpu needs 2.35 or later"))
        << err_.str();
    EXPECT_TRUE(err_has("hint: train on its CPUs, without --gpus; or leave it out: --on '!n-1'"))
        << err_.str();
  }
  EXPECT_TRUE(nodes_[0].processes.empty());
  EXPECT_EQ(run({"up", "c.toml"}), 0);
  EXPECT_TRUE(err_has("node n-1: its glibc is 2.31")) << err_.str();
  EXPECT_FALSE(err_has("node n-0: its glibc")) << err_.str();
  EXPECT_EQ(run({"train", "--gpus", "all", "--on", "n-0", "--name", "job1", "w"}), 0) << err_.str();
  write("w/job.toml", "[trainer]\ncommand = [\"./train\"]\n");
  EXPECT_EQ(run({"plan", "--gpus", "all", "--pservers", "0", "w"}), 0) << err_.str();
}

TEST_F(BuiltInOnGpus, Trap30MissingNcclIsNamedForJobsThatNeedIt) {
  write_gpu_engine(kProgramVersion);
  nodes_[0].nccl_library = "";
  const auto collective = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all{
        "plan", "--gpus", "1", "--pservers", "0", "--set", "strategy.dense=collective"};
    all.insert(all.end(), more.begin(), more.end());
    all.emplace_back("w");
    EXPECT_EQ(run(all), 0) << err_.str();
    EXPECT_FALSE(err_has("node n-1 has no libnccl"));
    return err_has("node n-0 has no libnccl.so.2, with which trainers on several GPUs sum");
  };
  EXPECT_TRUE(collective({}));
  EXPECT_EQ(run({"train", "--gpus", "1", "--name", "job1", "w"}), 0) << err_.str();
  EXPECT_FALSE(err_has("libnccl")) << "pservers add up";
  EXPECT_FALSE(collective({"--trainers", "1"})) << "nobody to add up with";
  EXPECT_FALSE(collective({"--set", "train.on_not_finite=\"skip\""}));
  EXPECT_FALSE(collective({"--set", "optimizer.clip_global_norm=1"}));
  EXPECT_FALSE(collective({"--on", "n-1"}));
  (void)run({"check"});
  EXPECT_TRUE(err_has("node n-0 has no libnccl.so.2")) << err_.str();
  EXPECT_FALSE(err_has("node n-1 has no libnccl.so.2")) << err_.str();
  nodes_[0].gpus.resize(1);
  nodes_[1].gpus.clear();
  (void)run({"check"});
  EXPECT_FALSE(err_has("libnccl")) << "a single GPU adds up with nobody\n" << err_.str();
}

TEST_F(BuiltInOnGpus, AResumedJobHasTheGpusOfItsLastRun) {
  write_gpu_engine(kProgramVersion);
  trainer_exit_ = 75;
  ASSERT_EQ(run({"train", "--gpus", "1", "--name", "job1", "w"}), 75) << err_.str();
  trainer_exit_ = 0;
  for (FakeNode& node : nodes_) node.specs.clear();
  ASSERT_EQ(run({"train", "--resume", "--name", "job1", "w"}), 0) << err_.str();
  for (const FakeNode& node : nodes_) {
    const auto trainer = std::ranges::find_if(
        node.specs, [](const auto& spec) { return spec.first.starts_with("trainer-"); });
    ASSERT_NE(trainer, node.specs.end()) << "one on each node, as before";
    EXPECT_EQ(trainer->second.environment.at("CUDA_VISIBLE_DEVICES"), "0");
    EXPECT_EQ(trainer->second.environment.at("PADDLE_INIT_USE_GPU"), "1");
  }
  EXPECT_FALSE(err_has("changed since the last run")) << err_.str();
  ASSERT_EQ(run({"train", "--resume", "--name", "job1", "--gpus", "all", "w"}), 0) << err_.str();
  EXPECT_TRUE(err_has("changed since the last run: --gpus 1 -> all\n")) << err_.str();
  nodes_[1].gpus.clear();
  EXPECT_EQ(run({"train", "--resume", "--name", "job1", "w"}), 2);
  EXPECT_TRUE(err_has("no GPU was found on node n-1")) << err_.str();
}

}  // namespace
}  // namespace paddle::cli
