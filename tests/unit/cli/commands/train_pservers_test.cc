// train --pservers: jobs that run without, and those that do not.
#include <fmt/format.h>

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

constexpr const char* kTablesJob =
    "[trainer]\ncommand = [\"./train\"]\n[[table]]\nname = \"user\"\nwidth = 16\n";

// As the sparse tables of a network. The program has the dense parameters.
TEST_F(CommandsTest, TablesOfAProgramAreOnPserversWithoutDensePorts) {
  write("w/job.toml", kTablesJob);
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  EXPECT_EQ(run({"train", "--pservers", "0", "w"}), 2);
  EXPECT_TRUE(err_has("the table 'user' of [[table]] is on pservers: 0 is too few")) << err_.str();
  EXPECT_TRUE(err_has("hint: --pservers 1; or leave [[table]] out")) << err_.str();
  ASSERT_EQ(run({"train", "--restarts", "2", "--name", "job1", "w"}), 0) << err_.str();
  EXPECT_TRUE(err_has("job job1: 2 trainers, 2 pservers on 2 nodes")) << err_.str();
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    const remote::ProcessSpec& server = nodes_[i].specs[fmt::format("pserver-{}", i)];
    EXPECT_EQ(std::ranges::count(server.arguments, "--ports_num=0"), 1);
    EXPECT_EQ(std::ranges::count(server.arguments, "--ports_num_for_sparse=1"), 1);
    EXPECT_EQ(std::ranges::count(server.arguments, "--lost_trainer_grace=600"), 1);
    const auto savepoints = std::ranges::find_if(
        server.arguments, [](const std::string& one) { return one.starts_with("--savepoints="); });
    EXPECT_NE(savepoints, server.arguments.end());
    const remote::ProcessSpec& trainer = nodes_[i].specs[fmt::format("trainer-{}", i)];
    EXPECT_TRUE(trainer.keeps_memory);
    EXPECT_EQ(trainer.environment.at("PADDLE_INIT_PORTS_NUM"), "0");
    EXPECT_EQ(trainer.environment.at("PADDLE_INIT_PORTS_NUM_FOR_SPARSE"), "1");
    EXPECT_FALSE(trainer.environment.at("PADDLE_INIT_PSERVERS").empty());
  }
}

TEST_F(CommandsTest, ThePlanOfAJobWithTablesShowsProcessesAndTables) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  write("w/job.toml", kTablesJob);
  write("paddle",
        "#!/bin/sh\ncase \"$*\" in *--json*) echo '{\"tables\":[]}';; "
        "*) printf '%s\\n' \"$@\";; esac\n");
  fs::permissions(folder_ + "/paddle", fs::perms::owner_all);
  EXPECT_EQ(run({"plan", "--pservers", "1", "w"}), 0) << err_.str();
  EXPECT_TRUE(
      out_.str().starts_with("pserver-0     n-0                 127.0.0.1:7164\n"
                             "trainer-0     n-0                 ./train\n"
                             "trainer-1     n-1                 ./train\n\nplan\n"))
      << out_.str();
  EXPECT_TRUE(out_has("--ports_num=0\n")) << out_.str();
  EXPECT_EQ(run({"--json", "plan", "--pservers", "1", "--trainers", "1", "w"}), 0) << err_.str();
  EXPECT_EQ(out_.str(),
            "{\"processes\":[{\"role\": \"pserver-0\", \"node\": \"n-0\", "
            "\"runs\": \"127.0.0.1:7164\"}, {\"role\": \"trainer-0\", \"node\": \"n-0\", "
            "\"runs\": \"./train\"}],\"tables\":[]}\n");
}

TEST_F(CommandsTest, ARenderedJobWithTablesNeedsAPserver) {
  write("w/job.toml", kTablesJob);
  for (const char* platform : {"slurm", "openmpi", "kubernetes"}) {
    EXPECT_EQ(run({"render", platform, "--pservers=0", "w"}), 2);
    EXPECT_TRUE(err_has("of [[table]] is on pservers: 0 is too few")) << err_.str();
  }
}

}  // namespace
}  // namespace paddle::cli
