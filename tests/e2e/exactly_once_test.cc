// Every record in every snapshot exactly once, told by the table's own counts of shows.
#include <csignal>
#include <map>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/e2e/ledger_job.h"
#include "tests/support/free_ports.h"

namespace paddle::test {
namespace {

constexpr Ledger kLedger{.trainers = 3, .records = 3000, .passes = 4};
constexpr int kRows = kLedger.trainers * kLedger.records;

class ExactlyOnce : public testing::TestWithParam<const char*> {
 protected:
  // Trains until `line` is in trainer 0's output, sends everyone the signal, and goes on from the
  // newest snapshot, with `changed` flags.
  void interrupt(const std::string& line, int signal,
                 const std::vector<std::string>& changed = {}) {
    Job job;
    write_ledger(job, kLedger);
    const int port = free_ports(4);
    std::vector<Process> processes;
    for (int id : {0, 1}) processes.push_back(job.start_pserver("job", shape, id, port));
    for (const Process& pserver : processes) ASSERT_TRUE(pserver.prints("READY pserver"));
    for (int id = 0; id < kLedger.trainers; ++id) {
      processes.push_back(job.start_trainer("job", shape, id, port, flags));
    }
    ASSERT_TRUE(processes[2].prints(line, std::chrono::seconds(120))) << processes[2].output();
    const bool is_kill = signal == SIGKILL;
    for (std::size_t i = is_kill ? 0 : 2; i < processes.size(); ++i) processes[i].signal(signal);
    for (Process& process : processes) process.wait();
    std::vector<std::string> more = flags;
    more.emplace_back("--resume");
    more.insert(more.end(), changed.begin(), changed.end());
    ASSERT_TRUE(job.run("job", shape, more));
    const std::string last = fmt::format("{}/pass-{:05}", job.save_dir("job"), kLedger.passes - 1);
    EXPECT_EQ(shows(last), (std::map<float, int>{{kLedger.passes, kRows}}));
  }

  const Shape shape{.trainers = kLedger.trainers, .pservers = 2};
  const std::vector<std::string> flags{fmt::format("--num_passes={}", kLedger.passes),
                                       "--set=train.snapshots_kept=0", "--set=train.log_period=20",
                                       fmt::format("--set=strategy.dense={}", GetParam()),
                                       fmt::format("--set=strategy.sparse={}", GetParam())};
};

TEST_P(ExactlyOnce, EverySnapshotHasEveryRecordOfItsPassesAndNoOther) {
  Job job;
  write_ledger(job, kLedger);
  ASSERT_TRUE(job.run("job", shape, flags));
  for (int pass = 0; pass < kLedger.passes; ++pass) {
    const std::string snapshot = fmt::format("{}/pass-{:05}", job.save_dir("job"), pass);
    EXPECT_EQ(shows(snapshot), (std::map<float, int>{{static_cast<float>(pass + 1), kRows}}))
        << snapshot;
  }
}

TEST_P(ExactlyOnce, AJobThatWasKilledInAPassDoesThatPassAgain) {
  interrupt("Pass=2 Batch=100 ", SIGKILL);
}

TEST_P(ExactlyOnce, AJobThatWasKilledWhileItSavedGoesOnFromTheSnapshotBefore) {
  interrupt("pass-00001\n", SIGKILL);
}

TEST_P(ExactlyOnce, AJobThatWasStoppedInAPassGoesOnThere) {
  interrupt("Pass=2 Batch=100 ", SIGTERM);
}

// A place in the data is a number of records, not of batches.
TEST_P(ExactlyOnce, AJobThatWasStoppedInAPassGoesOnWithSmallerBatches) {
  interrupt("Pass=2 Batch=100 ", SIGTERM, {"--set=train.batch_size=9"});
}

TEST_P(ExactlyOnce, AJobThatWasStoppedInAPassGoesOnWithLargerBatches) {
  interrupt("Pass=2 Batch=100 ", SIGTERM, {"--set=train.batch_size=50"});
}

INSTANTIATE_TEST_SUITE_P(Strategies, ExactlyOnce,
                         testing::Values("sync", "async", "half_async", "geo"),
                         [](const auto& strategy) { return std::string(strategy.param); });

}  // namespace
}  // namespace paddle::test
