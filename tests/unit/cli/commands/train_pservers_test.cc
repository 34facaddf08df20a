// train --pservers: jobs that run without, and those that do not.
#include "proto/keys.h"
#include "tests/unit/cli/commands/commands_fixture.h"

namespace paddle::cli {
namespace {

TEST_F(CommandsTest, AJobOfAProgramOfTheUsersOwnRunsWithoutPservers) {
  write("w/job.toml", "[trainer]\ncommand = [\"./train\", \"now\"]\n");
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  EXPECT_EQ(run({"plan", "--pservers", "0", "w"}), 0) << err_.str();
  EXPECT_EQ(out_.str(),
            "trainer-0     n-0                 ./train now\n"
            "trainer-1     n-1                 ./train now\n");
  ASSERT_EQ(run({"train", "--pservers", "0", "--name", "job1", "w"}), 0) << err_.str();
  EXPECT_TRUE(err_has("job job1: 2 trainers on 2 nodes")) << err_.str();
  EXPECT_FALSE(err_has("pserver")) << err_.str();
  for (const FakeNode& node : nodes_) EXPECT_EQ(node.specs.size(), 1U);
  // It goes on without them too.
  ASSERT_EQ(run({"train", "--resume", "--name", "job1", "w"}), 0) << err_.str();
  EXPECT_TRUE(err_has("job job1: 2 trainers on 2 nodes")) << err_.str();
  EXPECT_FALSE(nodes_[0].specs.contains("pserver-0"));
}

TEST_F(CommandsTest, TheBuiltInTrainerWithoutPserversIsRefused) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  using Words = std::vector<std::string>;
  for (const Words& command : {Words{"plan"}, Words{"train"}, Words{"render", "slurm"}}) {
    Words words = command;
    words.insert(words.end(), {"--pservers", "0", "w"});
    EXPECT_EQ(run(words), 2);
    EXPECT_TRUE(err_has("the built-in trainer keeps its parameters on pservers: 0 is too few"));
    EXPECT_TRUE(err_has("hint: --pservers 1; 0 is for [strategy] dense = ")) << err_.str();
  }
  EXPECT_TRUE(nodes_[0].specs.empty());
}

constexpr const char* kCollectiveJob = R"([data]
train = "train.txt"
format = "multislot"
[[data.slot]]
name = "x"
type = "float"
width = 2
[[data.slot]]
name = "y"
type = "float"
width = 1
[[layer]]
name = "out"
type = "fc"
input = ["x"]
size = 1
[[layer]]
name = "cost"
type = "squared_error"
input = ["out"]
label = "y"
[strategy]
dense = "collective"
)";

// Its trainers listen for each other, with keys for their pairs only.
TEST_F(CommandsTest, ACollectiveJobRunsWithoutPservers) {
  write("w/job.toml", kCollectiveJob);
  write("w/train.txt", "2 1 2 1 3\n2 1 2 1 3\n");
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  EXPECT_EQ(run({"train", "--pservers", "1", "w"}), 2);
  EXPECT_TRUE(err_has("dense = \"collective\" leaves 1 pserver without work")) << err_.str();
  EXPECT_TRUE(err_has("hint: --pservers 0")) << err_.str();
  EXPECT_EQ(run({"train", "--pservers", "1", "--set", "strategy.dense=local_sgd", "w"}), 2);
  EXPECT_TRUE(err_has("dense = \"local_sgd\" leaves 1 pserver without work")) << err_.str();
  ASSERT_EQ(run({"train", "--pservers", "0", "--name", "job1", "w"}), 0) << err_.str();
  const auto keys_of = [&](std::size_t node, const std::string& process) {
    const std::string& file = nodes_[node].files["jobs/job1/keys/" + process];
    return *JobKeys::decode(as_bytes(file));
  };
  const JobKeys first = keys_of(0, "trainer-0");
  const JobKeys second = keys_of(1, "trainer-1");
  const NodeId server{Role::kTrainer, 0}, client{Role::kTrainer, 1}, other{Role::kTrainer, 2};
  EXPECT_TRUE(std::ranges::equal(first.pair(client, server)->reveal(),
                                 second.pair(client, server)->reveal()));
  EXPECT_FALSE(second.pair(other, server));
  const auto& arguments = nodes_[1].specs["trainer-1"].arguments;
  const bool is_told = std::ranges::any_of(
      arguments, [](const std::string& one) { return one.starts_with("--trainers="); });
  EXPECT_TRUE(is_told);
}

TEST_F(CommandsTest, ACollectiveJobWithATableNeedsAPserverWithoutDensePorts) {
  std::string job = kCollectiveJob;
  job.insert(job.find("[[layer]]"),
             "[[data.slot]]\nname = \"id\"\ntype = \"id\"\n"
             "[[layer]]\nname = \"table\"\ntype = \"embedding\"\ninput = [\"id\"]\nsize = 2\n"
             "weight = { sparse = true }\n");
  write("w/job.toml", job);
  write("w/train.txt", "2 1 2 1 3 1 5\n");
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  EXPECT_EQ(run({"train", "--pservers", "0", "w"}), 2);
  EXPECT_TRUE(err_has("the sparse table of layer 'table' is on pservers: 0 is too few"))
      << err_.str();
  ASSERT_EQ(run({"train", "--pservers", "1", "--name", "job1", "w"}), 0) << err_.str();
  for (const auto& [node, process] :
       {std::pair<std::size_t, const char*>(0, "pserver-0"), {1, "trainer-1"}}) {
    const auto& arguments = nodes_[node].specs[process].arguments;
    EXPECT_EQ(std::ranges::count(arguments, "--ports_num=0"), 1) << process;
  }
}

}  // namespace
}  // namespace paddle::cli
