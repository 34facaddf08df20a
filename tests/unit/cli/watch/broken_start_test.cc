#include <gtest/gtest.h>

#include "cli/watch/missing_processes.h"
#include "tests/support/fake_cluster.h"

namespace paddle::cli {
namespace {

class BrokenStartLooks : public testing::Test {
 protected:
  BrokenStartLooks() { add(0, "pserver-0"); }
  remote::ProcessStatus& add(std::size_t node, const std::string& name) {
    remote::ProcessStatus status;
    status.job = "j";
    status.name = name;
    status.state = remote::ProcessState::kRunning;
    status.trainers = 2;
    status.pservers = 1;
    fake_.node(node).processes.push_back(status);
    return fake_.node(node).processes.back();
  }
  // Described as `paddlectl status` does; "" for a job that is well.
  std::string found() {
    ClusterSession session = fake_.session();
    const auto broken = find_broken_start(fake_.context, session, "j");
    return broken ? describe(*broken, "j") : "";
  }

  FakeCluster fake_{2};
};

TEST_F(BrokenStartLooks, ProcessesThatAreMissingAndThatNobodyStarts) {
  EXPECT_EQ(
      found(),
      "the start of j was interrupted: trainer-0, trainer-1 were never started; pserver-0 runs");
  add(1, "trainer-1").state = remote::ProcessState::kLost;
  EXPECT_EQ(found(), "the start of j was interrupted: trainer-0 was never started; pserver-0 runs");
  fake_.node(0).processes.front().state = remote::ProcessState::kExited;
  EXPECT_EQ(
      found(),
      "the start of j was interrupted: trainer-0 was never started; none of its processes runs");
  add(0, "trainer-0");
  EXPECT_EQ(found(), "") << "it is complete";
}

TEST_F(BrokenStartLooks, AJobWhoseTrainerWasOnANodeThatIsLostIsIncomplete) {
  fake_.node(0).processes.front().incarnation = 2;
  remote::ProcessStatus& trainer = add(1, "trainer-1");
  trainer.state = remote::ProcessState::kExited;
  trainer.exit_code = static_cast<int>(Errc::kUnreachable);
  EXPECT_EQ(found(), "j is incomplete: no node has trainer-0; pserver-0 runs");
}

// A job may be lost with a node before any process has reported a batch.
TEST_F(BrokenStartLooks, AJobWhoseNodeWasReplacedWasNoBrokenStart) {
  const std::vector<RecordedNode> nodes{{7, "n-0", {"a", "boot:1"}, {"pserver-0", "trainer-0"}},
                                        {7, "n-1", {"b", "boot:1"}, {"trainer-1"}}};
  fake_.node(0).files["jobs/j/nodes.jsonl"] = encode(nodes);
  add(0, "trainer-0");
  fake_.node(0).identity = {"a", "boot:1"};
  fake_.node(1).identity = {"b", "boot:1"};
  EXPECT_NE(found(), "") << "the node is the same, and nothing was started there";
  fake_.node(1).identity = {"c", "boot:2"};
  EXPECT_EQ(found(), "");
  ClusterSession session = fake_.session();
  ProcessPlaces places;
  const auto lost =
      look_for_lost_nodes(fake_.context, session, "j", session.processes("j"), places);
  ASSERT_TRUE(lost);
  EXPECT_EQ(lost->error.message,
            "node n-1 was replaced: its folder is new (another machine, container or pod under its "
            "name); trainer-1 of j ran there");
}

TEST_F(BrokenStartLooks, NodesAreThoseOfTheLatestRunThatAnyNodeHas) {
  fake_.node(0).files["jobs/j/nodes.jsonl"] = encode({{7, "n-0", {"a", "m"}, {"pserver-0"}}});
  fake_.node(1).files["jobs/j/nodes.jsonl"] =
      "no JSON\n" + encode({{8, "n-1", {"b", "m"}, {"trainer-0", "trainer-1"}}}) +
      "{\"kind\": \"node\", \"run\": 9}\n{\"node\": [1]}\n{\"run\": -1, \"node\": \"n-0\"}\n";
  ClusterSession session = fake_.session();
  const auto nodes = recorded_nodes(session, "j");
  ASSERT_EQ(nodes.size(), 2U);
  EXPECT_EQ(nodes[0].run, 8U);
  EXPECT_EQ(nodes[0].node, "n-1");
  EXPECT_EQ(nodes[0].identity, (remote::NodeIdentity{"b", "m"}));
  EXPECT_EQ(nodes[0].processes, (std::vector<std::string>{"trainer-0", "trainer-1"}));
  EXPECT_EQ(nodes[1].run, 0U) << "no number";
}

TEST_F(BrokenStartLooks, AJobWhoseFilesTellThatItTrainedIsIncomplete) {
  for (const char* const file :
       {"jobs/j/node_0/metrics.jsonl", "jobs/j/node_1/metrics-1.jsonl",
        "jobs/j/output/pass-00005/MANIFEST", "jobs/j/output/of-a-program/MANIFEST"}) {
    fake_.node(1).files = {{file, "{}"}};
    EXPECT_EQ(found(), "j is incomplete: no node has trainer-0, trainer-1; pserver-0 runs") << file;
  }
  for (const char* const file :
       {"jobs/j/node_0/server.jsonl", "jobs/j/workspace/metrics.jsonl", "jobs/j/keys/trainer-0"}) {
    fake_.node(1).files = {{file, "{}"}};
    EXPECT_TRUE(found().starts_with("the start of j was interrupted")) << file;
  }
}

TEST_F(BrokenStartLooks, AStartThatGoesOnIsNoneAndNeitherIsItsEnd) {
  fake_.node(0).starting = {"j"};
  EXPECT_EQ(found(), "");
  fake_.node(0).starting.clear();
  fake_.context.pause = [this](Duration) {  // between the two looks
    for (const char* const name : {"trainer-0", "trainer-1"}) add(1, name);
  };
  EXPECT_EQ(found(), "");
}

TEST_F(BrokenStartLooks, AJobThatTrainsOnANodeThatIsNotSeenIsNone) {
  fake_.node(0).processes.front().progress.emplace().updates = 1;
  EXPECT_EQ(found(), "") << "a node was taken out of the cluster file";
  fake_.node(0).processes.front().progress.reset();
  ClusterSession some = ClusterSession::find(fake_.context, fake_.cluster, {0});
  EXPECT_FALSE(find_broken_start(fake_.context, some, "j")) << "--on n-0";
  fake_.node(1).unreachable = true;
  EXPECT_EQ(found(), "");
}

}  // namespace
}  // namespace paddle::cli
