#include "cli/job/start.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "proto/keys.h"
#include "tests/support/fake_cluster.h"

namespace paddle::cli {
namespace {

class StartTest : public testing::Test {
 protected:
  StartTest() {
    PlannedProcess server;
    server.spec.job = plan_.job = "j";
    server.spec.name = "pserver-0";
    server.spec.log = "log";
    plan_.pservers = {server};
  }
  Status start() {
    ClusterSession session = fake_.session();
    return start_job(fake_.context, session, plan_);
  }
  // Starts pserver 0 on node 0, and the trainers on `nodes`, by number.
  Status start_on(FakeCluster& cluster, const std::vector<std::size_t>& nodes) {
    for (const std::size_t node : nodes) {
      PlannedProcess trainer;
      trainer.node = node;
      trainer.spec.job = plan_.job;
      trainer.spec.name = fmt::format("trainer-{}", plan_.trainers.size());
      plan_.trainers.push_back(trainer);
    }
    cluster.node(0).on_start = [](remote::FakeNode&, remote::ProcessStatus& status) {
      status.phase = remote::Phase::kReady;
    };
    ClusterSession session = cluster.session();
    return start_job(cluster.context, session, plan_);
  }
  static JobKeys keys_of(FakeCluster& cluster, int node, const std::string& name) {
    return *JobKeys::decode(as_bytes(cluster.node(node).files["jobs/j/keys/" + name]));
  }

  FakeCluster fake_{1};
  JobPlan plan_;
};

TEST_F(StartTest, ALogLineDoesNotMakeAPserverReady) {
  fake_.node(0).on_start = [](remote::FakeNode& node, remote::ProcessStatus&) {
    node.files["log"] += "READY pserver 0 ports 1-2\n";
  };
  const Status started = start();
  ASSERT_FALSE(started);
  EXPECT_EQ(started.error().code, Errc::kUnreachable);
  EXPECT_TRUE(started.error().message.starts_with("pserver-0 on n-0 was not ready in time"));
  EXPECT_FALSE(fake_.node(0).files["jobs/j/keys/pserver-0"].empty());
}

// Pserver 0 and both trainers know their common keys, and nobody another's.
TEST_F(StartTest, EveryProcessGetsTheKeysOfItsOwnPairsOnly) {
  FakeCluster two(2);
  ASSERT_TRUE(start_on(two, {0, 1}));
  const NodeId pserver{Role::kPserver, 0}, first{Role::kTrainer, 0}, second{Role::kTrainer, 1};
  const JobKeys of_pserver = keys_of(two, 0, "pserver-0");
  EXPECT_TRUE(equal_constant_time(keys_of(two, 0, "trainer-0").pair(first, pserver)->reveal(),
                                  of_pserver.pair(first, pserver)->reveal()));
  EXPECT_TRUE(equal_constant_time(keys_of(two, 1, "trainer-1").pair(second, pserver)->reveal(),
                                  of_pserver.pair(second, pserver)->reveal()));
  EXPECT_FALSE(keys_of(two, 1, "trainer-1").pair(first, pserver));
  EXPECT_FALSE(two.node(1).files.contains("jobs/j/keys/trainer-0"));
  EXPECT_FALSE(two.node(1).files.contains("jobs/j/keys/pserver-0"));
}

// They say nothing to a node that could not read the rows before.
TEST_F(StartTest, AReadersKeysLieOnTheNodeOfTrainer0Only) {
  FakeCluster two(2);
  ASSERT_TRUE(start_on(two, {1, 0}));
  EXPECT_FALSE(two.node(0).files.contains("jobs/j/keys/reader"));
  ASSERT_TRUE(two.node(1).files.contains("jobs/j/keys/reader"));
  const NodeId pserver{Role::kPserver, 0}, reader{Role::kReader, 0}, trainer{Role::kTrainer, 0};
  const JobKeys of_reader = keys_of(two, 1, "reader");
  EXPECT_TRUE(equal_constant_time(of_reader.pair(reader, pserver)->reveal(),
                                  keys_of(two, 0, "pserver-0").pair(reader, pserver)->reveal()));
  EXPECT_FALSE(of_reader.pair(trainer, pserver)) << "it cannot pass for a trainer";
  EXPECT_FALSE(keys_of(two, 1, "trainer-0").pair(reader, pserver));
}

// Its nodes list it in another order than that of its ranks.
TEST_F(StartTest, ARestartDealsNewKeysByTheNamesOfTheProcesses) {
  FakeCluster two(2);
  const auto add = [&](std::size_t node, const std::string& name) {
    remote::ProcessStatus status;
    status.job = "j";
    status.name = name;
    status.state = remote::ProcessState::kExited;
    two.node(node).processes.push_back(status);
    two.node(node).specs[name].job = "j";
    two.node(node).specs[name].name = name;
  };
  add(0, "trainer-1");
  add(0, "pserver-1");
  add(1, "trainer-0");
  add(1, "pserver-0");
  for (const std::size_t i : {0U, 1U}) {
    two.node(i).on_start = [](remote::FakeNode&, remote::ProcessStatus& status) {
      status.phase = remote::Phase::kReady;
    };
  }
  ClusterSession session = two.session();
  const Status restarted = restart_job(two.context, session, "j");
  ASSERT_TRUE(restarted) << restarted.error().message;
  const NodeId pserver{Role::kPserver, 1}, trainer{Role::kTrainer, 0};
  EXPECT_TRUE(equal_constant_time(keys_of(two, 1, "trainer-0").pair(trainer, pserver)->reveal(),
                                  keys_of(two, 0, "pserver-1").pair(trainer, pserver)->reveal()));
  EXPECT_EQ(two.node(0).claimed_job, "j") << "its nodes wipe keys of jobs that nobody starts";
  for (const std::size_t i : {0U, 1U}) two.node(i).processes.clear();
  add(0, "trainer-0");
  add(1, "trainer-0");
  two.node(0).processes[0].stopped = true;
  two.node(1).processes[0].started_unix_ms = 1;  // a later one has no better claim
  two.node(0).files.clear();
  const Status refused = restart_job(two.context, session, "j");
  ASSERT_FALSE(refused);
  EXPECT_TRUE(refused.error().message.starts_with("two nodes claim trainer-0 of job j"));
  EXPECT_TRUE(two.node(0).files.empty());
}

TEST_F(StartTest, ItsNoticeDoes) {
  fake_.node(0).on_start = [](remote::FakeNode&, remote::ProcessStatus& status) {
    status.phase = remote::Phase::kReady;
  };
  const Status started = start();
  EXPECT_TRUE(started) << started.error().message;
}

TEST_F(StartTest, AProcessThatEndsBeforeItIsReadyIsTheError) {
  fake_.node(0).on_start = [](remote::FakeNode&, remote::ProcessStatus& status) {
    status.state = remote::ProcessState::kExited;
    status.exit_code = static_cast<int>(Errc::kResource);
  };
  const Status started = start();
  ASSERT_FALSE(started);
  EXPECT_EQ(started.error().code, Errc::kResource);
  EXPECT_NE(started.error().message.find("before it was ready"), std::string::npos);
}

}  // namespace
}  // namespace paddle::cli
