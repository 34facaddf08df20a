#include "cli/job/watch.h"

#include <signal.h>

#include <gtest/gtest.h>

namespace paddle::cli {
namespace {

ProcessOnNode process(const std::string& name, remote::ProcessState state, int code,
                      std::int64_t ended) {
  ProcessOnNode made;
  made.status.name = name;
  made.status.state = state;
  made.status.exit_code = state == remote::ProcessState::kExited ? code : 0;
  made.status.signal = state == remote::ProcessState::kKilled ? code : 0;
  made.status.ended_unix_ms = ended;
  return made;
}

using enum remote::ProcessState;

TEST(FirstFailure, IsTheOneThatEndedFirst) {
  const std::vector<ProcessOnNode> all = {
      process("trainer-0", kExited, 4, 50), process("pserver-0", kKilled, 9, 40),
      process("trainer-1", kRunning, 0, 0), process("trainer-2", kLost, 0, 0)};
  const ProcessOnNode* first = first_failure(all);
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(first->status.name, "pserver-0");
  EXPECT_EQ(describe_state(first->status), "killed by signal 9 (Killed)");
}

TEST(FirstFailure, APserverThatEndedWellSawItsTrainersLeave) {
  EXPECT_EQ(
      first_failure({process("trainer-0", kRunning, 0, 0), process("pserver-0", kExited, 0, 4)}),
      nullptr);
  EXPECT_NE(
      first_failure({process("trainer-0", kRunning, 0, 0), process("pserver-0", kExited, 7, 4)}),
      nullptr);
}

TEST(FirstFailure, WhatAProcessDidItselfComesBeforeALostPeerWhateverTheClocksSay) {
  const std::vector<ProcessOnNode> data{process("trainer-0", kExited, 4, 100),
                                        process("trainer-1", kExited, 6, 9000)};
  EXPECT_EQ(first_failure(data)->status.name, "trainer-1");
  const std::vector<ProcessOnNode> killed{process("trainer-0", kExited, 4, 100),
                                          process("pserver-0", kKilled, 9, 9000)};
  EXPECT_EQ(first_failure(killed)->status.name, "pserver-0");
  const std::vector<ProcessOnNode> lost{process("trainer-0", kExited, 4, 100),
                                        process("trainer-1", kExited, 4, 90)};
  EXPECT_EQ(first_failure(lost)->status.name, "trainer-1");
}

TEST(FirstFailure, AnOrderToStopComesBeforeTheExitsOfItsMomentOnly) {
  const std::vector<ProcessOnNode> cause{process("trainer-0", kExited, 4, 100),
                                         process("pserver-0", kExited, 130, 150)};
  EXPECT_EQ(first_failure(cause)->status.name, "pserver-0");
  const std::vector<ProcessOnNode> cleanup{process("trainer-0", kExited, 4, 100),
                                           process("trainer-1", kKilled, SIGTERM, 900)};
  EXPECT_EQ(first_failure(cleanup)->status.name, "trainer-0");
  std::vector<ProcessOnNode> forced{process("trainer-0", kExited, 4, 100),
                                    process("trainer-1", kKilled, SIGKILL, 6000)};
  EXPECT_EQ(first_failure(forced)->status.name, "trainer-1");
  forced[1].status.stopped = true;
  EXPECT_EQ(first_failure(forced)->status.name, "trainer-0");
}

TEST(FirstFailure, ATrainerThatIsDoneIsNone) {
  EXPECT_EQ(
      first_failure({process("trainer-0", kExited, 0, 9), process("trainer-1", kRunning, 0, 0),
                     process("pserver-0", kRunning, 0, 0)}),
      nullptr);
}

TEST(FirstFailure, NobodyFailedWhereAJobWasAskedToStop) {
  std::vector<ProcessOnNode> all{process("trainer-0", kExited, 75, 9),
                                 process("trainer-1", kRunning, 0, 0),
                                 process("pserver-0", kRunning, 0, 0)};
  EXPECT_EQ(first_failure(all), nullptr);
  // One that knows no 75, while the other still saves; then that is why the job ended.
  all[0] = process("trainer-0", kKilled, SIGTERM, 9);
  all[0].status.stopped = true;
  EXPECT_EQ(first_failure(all), nullptr);
  all[1] = process("trainer-1", kExited, 75, 10);
  EXPECT_EQ(first_failure(all), &all[0]);
}

TEST(Metrics, ReadsWhatTheTrainerWrites) {
  const auto train =
      parse_metrics(R"({"kind":"train","pass":1,"batch":100,"samples":3200,"cost":6.5,)"
                    R"("examples_per_second":5000,"unix_ms":1})");
  ASSERT_TRUE(train);
  EXPECT_EQ(describe(*train),
            "trainer-0: pass 1 batch 100  samples 3200  cost 6.5000  5000 examples/s");
  const auto pass = parse_metrics(R"({"kind":"pass","pass":1,"batch":110,"samples":9,"cost":6})");
  ASSERT_TRUE(pass);
  EXPECT_EQ(describe(*pass), "trainer-0: pass 1 batch 110  samples 9  cost 6.0000");
  const auto test = parse_metrics(R"({"kind":"test","pass":0,"batch":9,"samples":10,"cost":5.0,)"
                                  R"("classification_error":0.25,"perplexity":148.41})");
  ASSERT_TRUE(test);
  EXPECT_EQ(
      describe(*test),
      "pass 0: held-out cost 5.0000, classification_error 0.25, perplexity 148.41 (10 samples)");
  const auto diverged = parse_metrics(R"({"kind":"train","pass":1,"batch":7,"cost":null})");
  ASSERT_TRUE(diverged) << "a cost that is no number is news, not noise";
  EXPECT_FALSE(diverged->cost);
  EXPECT_EQ(describe(*diverged), "trainer-0: pass 1 batch 7  samples 0  cost nan");
  EXPECT_FALSE(parse_metrics("garbage"));
}

TEST(Metrics, PathFollowsTheLog) {
  EXPECT_EQ(metrics_path("jobs/train/node_0/train-1.log"), "jobs/train/node_0/metrics-1.jsonl");
  EXPECT_EQ(metrics_path("jobs/x/node_0/server.log"), "jobs/x/node_0/server-metrics.jsonl");
}

}  // namespace
}  // namespace paddle::cli
