// Trainers of one node that push one sum of their gradients, as real processes on loopback: a node
// is an address there.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/result.h"
#include "tests/e2e/local_training_job.h"
#include "tests/support/free_ports.h"

namespace paddle::test {
namespace {

constexpr std::chrono::seconds kPatience{240};
constexpr Shape kServers{.trainers = 3, .pservers = 2, .ports_num = 2};
constexpr Shape kOneNode{.trainers = 3, .pservers = 2, .ports_num = 2, .nodes = 1};
constexpr Shape kTwoNodes{.trainers = 4, .pservers = 2, .nodes = 2};

// The second trainer has no file.
TEST(NodeGroups, OneNodeHasTheBitsOfSync) {
  Job job;
  job.write_dense_ngram({70, 0, 25});
  ASSERT_TRUE(job.run("servers", kServers, kThreePasses));
  ASSERT_TRUE(job.run("node", kOneNode, kThreePasses));
  for (const int pass : {0, 1, 2}) {
    const auto node = job.values("node", pass);
    EXPECT_TRUE(node.contains("_output.w0"));
    EXPECT_TRUE(node == job.values("servers", pass)) << pass;
  }
  // A job goes on with groups or without.
  for (const bool begins_in_groups : {true, false}) {
    const std::string name = begins_in_groups ? "from" : "to";
    ASSERT_TRUE(job.run(name, begins_in_groups ? kOneNode : kServers,
                        with(kThreePasses, {"--num_passes=1"})));
    ASSERT_TRUE(
        job.run(name, begins_in_groups ? kServers : kOneNode, with(kThreePasses, {"--resume"})));
    EXPECT_TRUE(job.values(name, 2) == job.values("servers", 2)) << name;
  }
  EXPECT_NE(job.output("node", 1).find("trainers 0, 1, 2 of this node push one sum"),
            std::string::npos);
}

// Rows are pushed by each trainer, as ever.
TEST(NodeGroups, TablesStayOnPservers) {
  Job job;
  job.write_ngram(3, 40);
  ASSERT_TRUE(job.run("servers", kServers, kThreePasses));
  ASSERT_TRUE(job.run("node", kOneNode, kThreePasses));
  EXPECT_GE(job.values("node", 2).size(), 2U);
  EXPECT_TRUE(job.values("node", 2) == job.values("servers", 2));
  for (const char* const sparse : {"async", "half_async", "geo"}) {
    ASSERT_TRUE(job.run(sparse, {.trainers = 3, .pservers = 1, .nodes = 2},
                        with(kThreePasses, {fmt::format("--set=strategy.sparse={}", sparse)})));
  }
}

TEST(NodeGroups, AStoppedJobGoesOnWithTheSameBits) {
  Job job;
  job.write_dense_ngram({70, 12, 0, 45});
  ASSERT_TRUE(job.run("whole", kTwoNodes, kThreePasses));
  Job::Running all = job.start("stopped", kTwoNodes, kThreePasses);
  ASSERT_TRUE(all.trainers[0].prints("Pass=1 Batch=5 ", kPatience)) << all.trainers[0].output();
  all.trainers[1].signal(SIGTERM);  // it may be at the end of its data
  all.trainers[3].signal(SIGTERM);
  for (Process& trainer : all.trainers) {
    EXPECT_EQ(trainer.wait(), static_cast<int>(Errc::kResumable)) << trainer.output();
  }
  for (Process& pserver : all.pservers) EXPECT_EQ(pserver.wait(), 0) << pserver.output();
  ASSERT_TRUE(job.run("stopped", kTwoNodes, with(kThreePasses, {"--resume"})));
  EXPECT_TRUE(job.values("stopped", 2) == job.values("whole", 2));
}

// The job is over for all, and goes on from its last snapshot. The second trainer has no file, and
// waits for the end of the pass, on the node of the last one.
TEST(NodeGroups, ALostTrainerEndsTheOthers) {
  Job job;
  job.write_dense_ngram({400, 0, 400, 400});
  ASSERT_TRUE(job.run("whole", kTwoNodes, kThreePasses));
  for (const std::size_t victim : {0U, 3U}) {
    const std::string name = fmt::format("lost-{}", victim);
    Job::Running all = job.start(name, kTwoNodes, kThreePasses);
    ASSERT_TRUE(all.trainers[2].prints("Pass=1 Batch=2 ", kPatience)) << all.trainers[2].output();
    all.trainers[victim].signal(SIGKILL);
    for (std::size_t id = 0; id < all.trainers.size(); ++id) {
      const auto code = all.trainers[id].wait();
      if (id == victim) continue;
      const std::string said = all.trainers[id].output();
      EXPECT_EQ(code, static_cast<int>(Errc::kUnreachable)) << said;
      EXPECT_TRUE(said.find(fmt::format("rank {}", victim)) != std::string::npos ||
                  said.find(fmt::format("trainer {} lost", victim)) != std::string::npos)
          << said;
    }
    for (Process& pserver : all.pservers) {
      const auto code = pserver.wait();
      EXPECT_TRUE(code && *code != 0) << pserver.output();
    }
    ASSERT_TRUE(job.run(name, kTwoNodes, with(kThreePasses, {"--resume"})));
    EXPECT_TRUE(job.values(name, 2) == job.values("whole", 2));
  }
}

TEST(NodeGroups, NeedTheAddressesOfAllTrainers) {
  Job job;
  job.write_dense_ngram({10, 10});
  const Shape shape{.trainers = 2, .pservers = 1};
  Process trainer = job.start_trainer("job", shape, 0, free_ports(shape.ports()),
                                      {"--set=strategy.node_groups=true"});
  EXPECT_EQ(trainer.wait(), static_cast<int>(Errc::kUsage));
  EXPECT_NE(trainer.output().find("--trainers names 0 trainers, but the job has 2"),
            std::string::npos)
      << trainer.output();
}

// The same without pservers, of a network above 32 KiB: a smaller one is added up in one exchange.
class NodesWithoutPservers : public testing::Test {
 protected:
  void SetUp() override {
    job_.write_dense_ngram({70, 12, 0, 45, 30});
    std::string text = TemporaryFolder::read(job_.folder() / "job.toml");
    constexpr std::string_view kHidden = "size = 16";
    text.replace(text.find(kHidden), kHidden.size(), "size = 400");
    job_.folder().write("job.toml", text);
  }
  Job job_;
};
constexpr Shape kFlat{.trainers = 5, .pservers = 0};
constexpr Shape kOneNodeOfFive{.trainers = 5, .pservers = 0, .nodes = 1};
constexpr Shape kThreeAndTwo{.trainers = 5, .pservers = 0, .nodes = 2};

TEST_F(NodesWithoutPservers, OneNodeHasTheBitsOfNone) {
  ASSERT_TRUE(job_.run("flat", kFlat, kThreePasses));
  ASSERT_TRUE(job_.run("one", kOneNodeOfFive, kThreePasses));
  EXPECT_TRUE(job_.values("one", 2) == job_.values("flat", 2));
}

TEST_F(NodesWithoutPservers, EveryRunOnTheSameNodesHasTheSameBits) {
  ASSERT_TRUE(job_.run("flat", kFlat, kThreePasses));
  ASSERT_TRUE(job_.run("two", kThreeAndTwo, kThreePasses));
  ASSERT_TRUE(job_.run("again", kThreeAndTwo, kThreePasses));
  EXPECT_NE(job_.output("two", 3).find("trainers add their gradients up on each of 2 nodes first"),
            std::string::npos)
      << job_.output("two", 3);
  EXPECT_TRUE(job_.values("again", 2) == job_.values("two", 2));
  EXPECT_FALSE(job_.values("flat", 2) == job_.values("two", 2));
  // A job goes on in either way, and back.
  ASSERT_TRUE(job_.run("mixed", kThreeAndTwo, with(kThreePasses, {"--num_passes=1"})));
  EXPECT_TRUE(job_.values("mixed", 0) == job_.values("two", 0));
  ASSERT_TRUE(job_.run("mixed", kFlat, with(kThreePasses, {"--resume", "--num_passes=2"})));
  ASSERT_TRUE(job_.run("mixed", kThreeAndTwo, with(kThreePasses, {"--resume"})));
}

TEST_F(NodesWithoutPservers, AKilledJobGoesOnWithTheSameBits) {
  ASSERT_TRUE(job_.run("whole", kThreeAndTwo, kThreePasses));
  Job::Running all = job_.start("lost", kThreeAndTwo, kThreePasses);
  ASSERT_TRUE(all.trainers[0].prints("Pass=1 Batch=2 ", kPatience)) << all.trainers[0].output();
  all.trainers[3].signal(SIGKILL);
  for (std::size_t id = 0; id < all.trainers.size(); ++id) {
    const auto code = all.trainers[id].wait();
    if (id == 3) continue;
    EXPECT_EQ(code, static_cast<int>(Errc::kUnreachable)) << all.trainers[id].output();
    EXPECT_NE(all.trainers[id].output().find("lost rank 3"), std::string::npos)
        << all.trainers[id].output();
  }
  ASSERT_TRUE(job_.run("lost", kThreeAndTwo, with(kThreePasses, {"--resume"})));
  EXPECT_TRUE(job_.values("lost", 2) == job_.values("whole", 2));
}

}  // namespace
}  // namespace paddle::test
