#include "engine/trainer/loop.h"

#include <sys/mman.h>
#include <unistd.h>

#include <map>
#include <sstream>

#include <gtest/gtest.h>

#include "engine/snapshot/retention.h"
#include "engine/snapshot/writer.h"
#include "tests/support/temporary_folder.h"

namespace paddle::trainer {
namespace {

constexpr const char* kJob = R"(
[data]
train = "train.csv"
format = "csv"
columns = ["area", "price"]
[[data.slot]]
name = "area"
type = "float"
[[data.slot]]
name = "price"
type = "float"
[[layer]]
name = "estimate"
type = "fc"
input = ["area"]
size = 1
[[layer]]
name = "cost"
type = "squared_error"
input = ["estimate"]
label = "price"
[train]
passes = 2
batch_size = 1
)";

// Saves snapshots without parameters.
class EmptySnapshots final : public client::SnapshotClient {
 public:
  Status load(const std::string&) override { std::abort(); }
  Status resume(const snapshot::SnapshotReader&) override { std::abort(); }
  Status save(const std::string& directory) override { return write("full", directory); }
  Status save_delta(const std::string& directory, const std::string& base) override {
    return write("since " + name_of(base), directory);
  }
  Status save_copy(const std::string&) override { std::abort(); }
  Result<std::uint64_t> leader_batches() override { std::abort(); }

  std::vector<std::string> saved;                              // "full pass-00000"
  std::function<Status(const std::string& name)> finish = {};  // called after each save
  std::map<std::string, Error> failures;                       // by name

 private:
  static std::string name_of(const std::string& path) { return path.substr(path.rfind('/') + 1); }
  Status write(const std::string& kind, const std::string& directory) {
    saved.push_back(kind + " " + name_of(directory));
    if (const auto failure = failures.find(name_of(directory)); failure != failures.end()) {
      return failure->second;
    }
    snapshot::SnapshotInfo info;
    info.optimizer.set_method("sgd");
    info.optimizer.set_learning_rate(0.1F);
    info.pass = saved.size();
    info.trainer_cursors = {0};
    PADDLE_TRY(auto writer, snapshot::SnapshotWriter::create(directory, info));
    PADDLE_TRY_STATUS(writer.finish());
    return finish ? finish(name_of(directory)) : Status();
  }
};

// Pservers whose values stay zero.
class IdleClient final : public client::ParameterClient {
 public:
  Status ready() override { return {}; }
  client::JobProgress progress() const override { return {}; }
  Status pull_dense(std::span<client::DenseParameter> parameters) override {
    for (client::DenseParameter& one : parameters) one.value.assign(1, 0);
    return {};
  }
  Status pull_rows(std::span<client::SparseRows>) override { return {}; }
  Status pull_averages(std::span<client::DenseParameter>, std::span<client::SparseRows>) override {
    return {};
  }
  Status push(std::uint64_t, double, std::span<client::DenseParameter>,
              std::span<client::SparseRows>) override {
    return {};
  }
  Status repeat_push(std::uint64_t, std::uint64_t, double, std::span<client::DenseParameter>,
                     std::span<client::SparseRows>) override {
    return {};
  }
  void repeat_pass_end() override {}
  Result<client::PassTotals> end_pass(const Tally& tally, client::PassEnd) override {
    client::PassTotals totals;
    totals.tally = tally;
    return totals;
  }
  Status announce_busy() override { return {}; }
  void ask_to_stop() override {}
  bool stop_asked() const override { return false; }
  Status leave() override { return {}; }
  void interrupt(const Error&) override {}
  void abandon(const Error&) override {}
  client::SnapshotClient& snapshots() override { return empty_snapshots; }

  EmptySnapshots empty_snapshots;
};

class LoopTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_.write("train.csv", "1,2\n2,4\n3,6\n");
    auto job = config::read_job(folder_.write("job.toml", kJob));
    ASSERT_TRUE(job) << job.error().message;
    auto model = Model::build(*job);
    ASSERT_TRUE(model) << model.error().message;
    model_.emplace(*std::move(model));
    auto share = config::data_share(folder_.path(), job->data.train, 0, 1);
    ASSERT_TRUE(share) << share.error().message;
    options_.train = job->train;
    options_.optimizer = job->optimizer;
    options_.train_data = {.data = job->data,
                           .share = *std::move(share),
                           .folder = folder_.path(),
                           .batch_size = job->train.batch_size};
  }
  Status run() {
    MetricsFile metrics = *MetricsFile::open("");
    return Loop(options_, dictionary_, *model_, client_, metrics).run();
  }

  test::TemporaryFolder folder_;
  LoopOptions options_;
  data::Dictionary dictionary_;
  std::optional<Model> model_;
  IdleClient client_;
};

// A life that is soon killed has told that it trained.
TEST_F(LoopTest, TheFirstBatchOfALifeIsReportedAtOnce) {
  std::vector<std::uint64_t> batches;
  options_.report = [&](const wire::Progress& progress) { batches.push_back(progress.batch()); };
  const Status done = run();
  ASSERT_TRUE(done) << done.error().message;
  ASSERT_GE(batches.size(), 2U);
  EXPECT_EQ(batches[0], 0U);
  EXPECT_EQ(batches[1], 1U);
}

// The first life ends in the save that follows the end of pass 0, and leaves its memory.
TEST_F(LoopTest, AnEndOfAPassThatIsRepeatedIsWrittenOnce) {
  const UniqueFd memory(::memfd_create("lives", 0));
  const std::string metrics = folder_ / "metrics.jsonl";
  ASSERT_TRUE(client_.pull_dense(model_->dense()));
  const auto live = [&](std::uint32_t start_pass) {
    auto kept = KeptPush::open(
        {.memory = UniqueFd(::dup(memory.get())), .empty_tally = model_->empty_tally()},
        model_->dense());
    EXPECT_TRUE(kept);
    options_.kept = kept->get();
    options_.start_pass = start_pass;
    options_.repeats_pass_end = start_pass > 0;
    MetricsFile file = *MetricsFile::open(metrics);
    return Loop(options_, dictionary_, *model_, client_, file).run();
  };
  options_.save_dir = folder_.path();
  client_.empty_snapshots.failures.emplace("pass-00000", Error{Errc::kUnreachable, "lost"});
  ASSERT_FALSE(live(0));
  client_.empty_snapshots.failures.clear();
  const Status done = live(1);
  ASSERT_TRUE(done) << done.error().message;
  std::vector<std::string> kinds;
  std::istringstream lines(test::TemporaryFolder::read(metrics));
  for (std::string line; std::getline(lines, line);) {
    kinds.push_back(line.substr(9, line.find('"', 9) - 9));
  }
  EXPECT_EQ(kinds, (std::vector<std::string>{"pass", "save", "pass", "save"}));
}

class LoopSaves : public LoopTest {
 protected:
  void SetUp() override {
    LoopTest::SetUp();
    options_.save_dir = folder_.path();
    options_.train.passes = 4;
    options_.train.snapshots_kept = 1;
  }
  std::vector<std::string> left() const { return *snapshot::snapshot_names(folder_.path()); }
  // Damages the snapshot of this name once it is saved.
  void damage(const std::string& name) {
    client_.empty_snapshots.finish = [this, name](const std::string& saved) -> Status {
      if (saved == name) folder_.write(name + "/MANIFEST", "damaged");
      left_after_[saved] = left();
      return {};
    };
  }
  void fail(const std::string& name, Errc code = Errc::kResource) {
    client_.empty_snapshots.failures.emplace(
        name, Error{code, "write /" + name + ".tmp/w: No space left on device"});
  }
  const std::vector<std::string>& saved() const { return client_.empty_snapshots.saved; }

  std::map<std::string, std::vector<std::string>> left_after_;  // before others are removed
};

TEST_F(LoopSaves, EachPassReplacesTheOneBefore) {
  ASSERT_TRUE(run());
  EXPECT_EQ(saved(), (std::vector<std::string>{"full pass-00000", "full pass-00001",
                                               "full pass-00002", "full pass-00003"}));
  EXPECT_EQ(left(), std::vector<std::string>{"pass-00003"});
}

TEST_F(LoopSaves, OneThatCannotBeReadBackKeepsTheOneBeforeAndTrainingGoesOn) {
  damage("pass-00001");
  testing::internal::CaptureStderr();
  const Status done = run();
  const std::string log = testing::internal::GetCapturedStderr();
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_NE(log.find("pass-00001: MANIFEST"), std::string::npos) << log;
  EXPECT_EQ(left_after_["pass-00002"],
            (std::vector<std::string>{"pass-00000", "pass-00001", "pass-00002"}));
  EXPECT_EQ(left(), (std::vector<std::string>{"pass-00001", "pass-00003"}));
}

TEST_F(LoopSaves, NoDeltaGoesOnFromOneThatCannotBeReadBack) {
  options_.train.full_snapshot_period = 100;
  damage("pass-00001");
  ASSERT_TRUE(run());
  EXPECT_EQ(saved(), (std::vector<std::string>{"full pass-00000", "since pass-00000 pass-00001",
                                               "full pass-00002", "full pass-00003"}));
}

TEST_F(LoopSaves, TheLastOneMustBeReadBack) {
  damage("pass-00003");
  const Status done = run();
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, Errc::kData);
  EXPECT_EQ(left(), (std::vector<std::string>{"pass-00002", "pass-00003"}));
}

TEST_F(LoopSaves, AFullDiskCostsASnapshotAndNoTraining) {
  fail("pass-00001");
  fail("pass-00002");
  std::vector<std::string> told;
  options_.report = [&](const wire::Progress& progress) {
    if (told.empty() || told.back() != progress.save_failure())
      told.push_back(progress.save_failure());
  };
  testing::internal::CaptureStderr();
  const Status done = run();
  const std::string log = testing::internal::GetCapturedStderr();
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_EQ(left(), std::vector<std::string>{"pass-00003"});
  const std::string failure = "saving pass-00001: write /pass-00001.tmp/w: No space left on device";
  EXPECT_NE(log.find(failure), std::string::npos) << log;
  ASSERT_GE(told.size(), 3U);
  EXPECT_EQ(told[0], "");
  EXPECT_EQ(told[1], failure);
  EXPECT_EQ(told[2].substr(0, 17), "saving pass-00002");
}

TEST_F(LoopSaves, ASaveThatSucceedsEndsTheFailure) {
  fail("pass-00001");
  std::string told;
  options_.report = [&](const wire::Progress& progress) { told = progress.save_failure(); };
  ASSERT_TRUE(run());
  EXPECT_EQ(told, "");
}

// The shards have forgotten what changed since the last full one.
TEST_F(LoopSaves, AfterAFailureTheNextOneIsFull) {
  options_.train.passes = 6;
  options_.train.full_snapshot_period = 100;
  fail("pass-00002");
  ASSERT_TRUE(run());
  EXPECT_EQ(saved(), (std::vector<std::string>{"full pass-00000", "since pass-00000 pass-00001",
                                               "since pass-00000 pass-00002", "full pass-00003",
                                               "since pass-00003 pass-00004", "full pass-00005"}));
}

TEST_F(LoopSaves, TheLastOneMustBeSaved) {
  fail("pass-00003");
  const Status done = run();
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, Errc::kResource);
  EXPECT_EQ(left(), std::vector<std::string>{"pass-00002"});
}

TEST_F(LoopSaves, WithoutAnEarlierSnapshotTheFirstOneMustBeSaved) {
  fail("pass-00000");
  const Status done = run();
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, Errc::kResource);
  EXPECT_EQ(saved().size(), 1U);
}

TEST_F(LoopSaves, ALostPserverIsNoFullDisk) {
  fail("pass-00001", Errc::kUnreachable);
  const Status done = run();
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, Errc::kUnreachable);
}

}  // namespace
}  // namespace paddle::trainer
