#include "cli/watch/first_failure.h"

#include <signal.h>

#include <algorithm>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "cli/watch/process_state.h"
#include "tests/support/fake_cluster.h"

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

// Python exits with 2 where it finds no script: that is no wrong flag of paddlectl's.
TEST(FirstFailure, TheExitCodeOfAProgramOfOnesOwnIsNoCodeOfPaddlectl) {
  FakeCluster fake{1};
  ClusterSession session = fake.session();
  ProcessOnNode failed = process("trainer-0", kExited, 2, 50);
  failed.status.arguments = {"python3", "train.py"};
  EXPECT_EQ(failure_error(session, failed).code, Errc::kFailed);
  failed.status.exit_code = 75;
  EXPECT_EQ(failure_error(session, failed).code, Errc::kResumable) << "as docs/trainer.md has it";
  failed.status.exit_code = 2;
  failed.status.arguments = {"train", "--config=job.toml"};
  failed.status.reports = true;
  EXPECT_EQ(failure_error(session, failed).code, Errc::kUsage);
}

// The log of a trainer of three passes over 20 tables, with `last` at its end.
std::string log_of_passes(const std::string& last) {
  const std::string prefix = "I0317 17:26:12.388079 trainer-0] ";
  std::string log = prefix + "trainer 0 of 1: 2 files, batches of 32\n";
  for (int pass = 0; pass < 3; ++pass) {
    log += fmt::format("{}Pass={} over all trainers: samples=9 AvgCost=0.5 discarded=0\n", prefix,
                       pass);
    for (int table = 0; table < 20; ++table)
      log += fmt::format("{}Pass={} table 'words-{}': rows=9 MiB=0.1\n", prefix, pass, table);
  }
  return log + last;
}

TEST(FirstFailure, TheLastLinesAreWithoutTheTotalsOfPasses) {
  FakeCluster fake{1};
  ClusterSession session = fake.session();
  ProcessOnNode failed = process("trainer-0", kExited, 6, 50);
  failed.status.log = "log";
  failed.status.arguments = {"train", "--config=job.toml"};
  failed.status.reports = true;
  const std::string bad = "F0317 17:26:13.000001 trainer-0] data/train-00000:7: bad record";
  const std::string shown =
      "; last lines:\n"
      "  n-0/trainer-0 | I0317 17:26:12.388079 trainer-0] trainer 0 of 1: 2 files, batches of 32\n"
      "  n-0/trainer-0 | " +
      bad;
  std::string& log = fake.node(0).files["log"];
  for (const char* const end : {"\n", ""}) {
    log = log_of_passes(bad + end);
    const std::string message = failure_error(session, failed).message;
    EXPECT_TRUE(message.ends_with(shown)) << message;
  }
  // A warning, and a line that has only the same words, may be the reason.
  const std::string reason =
      "W0317 17:26:12.388079 trainer-0] Pass=1 table 'a': lost\nPass=1 table 'b'";
  log = log_of_passes(reason);
  EXPECT_NE(failure_error(session, failed).message.find("Pass=1 table 'a': lost"), log.npos);
  EXPECT_NE(failure_error(session, failed).message.find("Pass=1 table 'b'"), log.npos);
  // A log without totals gives its last 15 lines, that of a killed process its last three.
  log.clear();
  for (int i = 0; i < 20; ++i) log += fmt::format("line {}\n", i);
  const auto lines = [&] {
    const std::string message = failure_error(session, failed).message;
    return std::ranges::count(message, '\n');
  };
  EXPECT_EQ(lines(), 15);
  failed.status.state = kKilled;
  failed.status.signal = 9;
  EXPECT_EQ(lines(), 3);
  log = log_of_passes("1\n2\n");
  EXPECT_TRUE(failure_error(session, failed)
                  .message.ends_with("batches of 32\n  n-0/trainer-0 | 1\n  n-0/trainer-0 | 2"))
      << failure_error(session, failed).message;
}

TEST(FirstFailure, TheLastLinesOfAProgramOfOnesOwnAreAllThatItWrote) {
  FakeCluster fake{1};
  ClusterSession session = fake.session();
  ProcessOnNode failed = process("trainer-0", kExited, 1, 50);
  failed.status.log = "log";
  failed.status.arguments = {"python3", "train.py"};
  fake.node(0).files["log"] = log_of_passes("Traceback\n");
  const std::string message = failure_error(session, failed).message;
  EXPECT_NE(message.find("Pass=2 table 'words-19'"), message.npos) << message;
  EXPECT_TRUE(message.ends_with("| Traceback")) << message;
}

TEST(FirstFailure, AnEndForLackOfMemoryIsToldFromAKill) {
  ProcessOnNode killed = process("pserver-0", kKilled, 9, 40);
  killed.status.out_of_memory_bytes = 3'100'000'000;
  EXPECT_EQ(describe_state(killed.status), "killed by the kernel: out of memory (it had 3.1 GB)");
  remote::Restart restart{0, 9, 40, 1};
  restart.out_of_memory_bytes = 3'100'000'000;
  EXPECT_EQ(describe(restart, 2),
            "was killed by the kernel: out of memory (it had 3.1 GB); restarted (1 of 2)");
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

TEST(FirstFailure, ATrainersFailureComesBeforeThatOfAPserverWhichItTold) {
  std::vector<ProcessOnNode> all{process("pserver-0", kExited, 1, 40),
                                 process("trainer-0", kExited, 7, 50)};
  all[0].status.failure = Error{Errc::kFailed, "trainer 0: write w: No space left on device", ""};
  EXPECT_EQ(first_failure(all)->status.name, "trainer-0");
  EXPECT_FALSE(is_consequence(first_failure(all)));
  all[0].status.failure->message = "bind: Address already in use";
  EXPECT_EQ(first_failure(all)->status.name, "pserver-0") << "its own failure";
  all[0].status.failure->message = "trainer 0: write w: No space left on device";
  all.pop_back();
  all.push_back(process("trainer-1", kExited, 4, 50));
  EXPECT_EQ(first_failure(all)->status.name, "pserver-0") << "nobody else knows the cause";
}

TEST(FirstFailure, ATrainersFailureComesBeforeThoseOfTrainersThatHeardOfIt) {
  std::vector<ProcessOnNode> all{process("trainer-1", kExited, 7, 40),
                                 process("trainer-0", kExited, 7, 50)};
  const std::string full = "write w: No space left on device";
  all[1].status.failure = Error{Errc::kResource, full, ""};
  for (const char* const way : {"trainer 0: ", "pserver dense port 0: trainer 0: ",
                                "pserver 1: sparse port 2: trainer 0: "}) {
    all[0].status.failure = Error{Errc::kResource, way + full, ""};
    EXPECT_EQ(first_failure(all)->status.name, "trainer-0") << way;
  }
  for (const char* const way :
       {"", "trainer 1: ", "trainer 0 lost: ", "the trainer 0: ", "trainer : "}) {
    all[0].status.failure = Error{Errc::kResource, way + full, ""};
    EXPECT_EQ(first_failure(all)->status.name, "trainer-1") << way;
  }
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
  // A trainer without a clean stop is the cause only once the other one has saved.
  all[0] = process("trainer-0", kKilled, SIGTERM, 9);
  all[0].status.stopped = true;
  EXPECT_EQ(first_failure(all), nullptr);
  all[1] = process("trainer-1", kExited, 75, 10);
  EXPECT_EQ(first_failure(all), &all[0]);
}

}  // namespace
}  // namespace paddle::cli
