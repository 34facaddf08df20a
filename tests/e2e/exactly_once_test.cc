// Every record in every snapshot exactly once, told by the table's own counts of shows.
#include <csignal>
#include <map>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/rng.h"
#include "engine/snapshot/reader.h"
#include "tests/e2e/local_training_job.h"
#include "tests/support/free_ports.h"

namespace paddle::test {
namespace {

constexpr int kTrainers = 3;
constexpr int kRecords = 3000;  // of each trainer, with an id of its own each
constexpr int kPasses = 4;

// A table that takes its time to save, so that a trainer that does not wait is far ahead.
void write_ledger(Job& job) {
  for (int trainer = 0; trainer < kTrainers; ++trainer) {
    Rng rng(static_cast<std::uint64_t>(trainer));
    std::string text;
    for (int i = 0; i < kRecords; ++i) {
      text += fmt::format("1 {} 1 {}\n", 1 + trainer * kRecords + i, rng.below(2));
    }
    job.folder().write(fmt::format("data/train.txt-{:05}", trainer), text);
  }
  job.folder().write("job.toml", R"(name = "ledger"
[data]
train = "data/train.txt-*"
format = "multislot"
[[data.slot]]
name = "record"
type = "id"
[[data.slot]]
name = "click"
type = "id"
[[layer]]
name = "ids"
type = "embedding"
input = ["record"]
size = 64
weight = { sparse = true, shrink = { label = "click", decay = 1, threshold = 0 } }
[[layer]]
name = "score"
type = "fc"
input = ["ids"]
size = 1
[[layer]]
name = "cost"
type = "binary_cross_entropy"
input = ["score"]
label = "click"
[optimizer]
method = "sgd"
learning_rate = 0.01
[train]
passes = 4
batch_size = 16
)");
}

// How many rows were shown how often.
std::map<float, int> shows(const std::string& snapshot) {
  std::map<float, int> counts;
  const auto reader = snapshot::SnapshotReader::open(snapshot);
  EXPECT_TRUE(reader) << reader.error().message;
  if (!reader) return counts;
  const Status read = reader->read_rows("_ids.w0", [&](const snapshot::SparseRow& row) -> Status {
    ++counts[row.score.shows];
    return {};
  });
  EXPECT_TRUE(read) << read.error().message;
  return counts;
}

class ExactlyOnce : public testing::TestWithParam<const char*> {
 protected:
  // Trains until `line` is in trainer 0's output, sends everyone the signal, and goes on from the
  // newest snapshot.
  void interrupt(const std::string& line, int signal) {
    Job job;
    write_ledger(job);
    const int port = free_ports(4);
    std::vector<Process> processes;
    for (int id : {0, 1}) processes.push_back(job.start_pserver("job", shape, id, port));
    for (const Process& pserver : processes) ASSERT_TRUE(pserver.prints("READY pserver"));
    for (int id = 0; id < kTrainers; ++id) {
      processes.push_back(job.start_trainer("job", shape, id, port, flags));
    }
    ASSERT_TRUE(processes[2].prints(line, std::chrono::seconds(120))) << processes[2].output();
    const bool is_kill = signal == SIGKILL;
    for (std::size_t i = is_kill ? 0 : 2; i < processes.size(); ++i) processes[i].signal(signal);
    for (Process& process : processes) process.wait();
    std::vector<std::string> more = flags;
    more.emplace_back("--resume");
    ASSERT_TRUE(job.run("job", shape, more));
    const std::string last = fmt::format("{}/pass-{:05}", job.save_dir("job"), kPasses - 1);
    EXPECT_EQ(shows(last), (std::map<float, int>{{kPasses, kTrainers * kRecords}}));
  }

  const Shape shape{.trainers = kTrainers, .pservers = 2};
  const std::vector<std::string> flags{fmt::format("--num_passes={}", kPasses),
                                       "--set=train.snapshots_kept=0", "--set=train.log_period=20",
                                       fmt::format("--set=strategy.dense={}", GetParam()),
                                       fmt::format("--set=strategy.sparse={}", GetParam())};
};

TEST_P(ExactlyOnce, EverySnapshotHasEveryRecordOfItsPassesAndNoOther) {
  Job job;
  write_ledger(job);
  ASSERT_TRUE(job.run("job", shape, flags));
  for (int pass = 0; pass < kPasses; ++pass) {
    const std::string snapshot = fmt::format("{}/pass-{:05}", job.save_dir("job"), pass);
    EXPECT_EQ(shows(snapshot),
              (std::map<float, int>{{static_cast<float>(pass + 1), kTrainers * kRecords}}))
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

INSTANTIATE_TEST_SUITE_P(Strategies, ExactlyOnce,
                         testing::Values("sync", "async", "half_async", "geo", "local_sgd"),
                         [](const auto& strategy) { return std::string(strategy.param); });

}  // namespace
}  // namespace paddle::test
