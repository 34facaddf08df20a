#include "engine/trainer/loop.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cmath>
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
  void describe(std::shared_ptr<const std::vector<snapshot::ModelFile>>) override {}
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
  client::JobProgress progress() const override { return at; }
  Status pull_dense(std::span<client::DenseParameter> parameters) override {
    for (client::DenseParameter& one : parameters) one.value.assign(1, 0);
    return {};
  }
  Status pull_rows(std::span<client::SparseRows>) override { return {}; }
  Status pull_averages(std::span<client::DenseParameter>, std::span<client::SparseRows>) override {
    return {};
  }
  Status push(std::uint64_t samples, double cost, std::span<client::DenseParameter> dense,
              std::span<client::SparseRows>) override {
    pushed.push_back({samples, cost, dense.empty() ? 0.0F : dense[0].gradients()[0]});
    return {};
  }
  Status repeat_push(std::uint64_t, std::uint64_t, double, std::span<client::DenseParameter>,
                     std::span<client::SparseRows>) override {
    return repeated;
  }
  void repeat_pass_end() override {}
  Result<client::PassTotals> end_pass(const Tally& tally, client::PassEnd) override {
    client::PassTotals totals;
    totals.tally = tally;
    return totals;
  }
  Status announce_busy(std::string_view /*activity*/) override { return {}; }
  void ask_to_stop() override {}
  bool stop_asked() const override { return false; }
  Status leave() override { return left; }
  void interrupt(const Error&) override {}
  void abandon(const Error&) override {}
  client::SnapshotClient& snapshots() override { return empty_snapshots; }

  EmptySnapshots empty_snapshots;
  client::JobProgress at;
  Status repeated;
  Status left;
  struct Pushed {
    std::uint64_t samples = 0;
    double cost = 0;
    float gradient = 0;  // the first of the first parameter
  };
  std::vector<Pushed> pushed;
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
// Only its client knows whether a loss matters.
TEST_F(LoopTest, ATrainerThatCannotLeaveFails) {
  client_.left = Error{Errc::kUnreachable, "lost rank 0 (node-0)"};
  const Status ended = run();
  ASSERT_FALSE(ended);
  EXPECT_EQ(ended.error().code, Errc::kUnreachable);
}

TEST_F(LoopTest, TheFirstBatchOfALifeIsReportedAtOnce) {
  std::vector<std::uint64_t> batches;
  options_.report = [&](const wire::Progress& progress) { batches.push_back(progress.batch()); };
  const Status done = run();
  ASSERT_TRUE(done) << done.error().message;
  ASSERT_GE(batches.size(), 2U);
  EXPECT_EQ(batches[0], 0U);
  EXPECT_EQ(batches[1], 1U);
}

// One that does not arrive because another pserver is lost too is sent again when that is back.
TEST_F(LoopTest, APushIsLostWhenNoLifeHasIt) {
  ASSERT_TRUE(client_.pull_dense(model_->dense()));
  MetricsFile metrics = *MetricsFile::open("");
  const auto loses_push = [&] {
    Loop loop(options_, dictionary_, *model_, client_, metrics);
    const Status ended = loop.run();
    EXPECT_TRUE(!ended && ended.error().code == Errc::kUnreachable);
    return loop.has_lost_push();
  };
  client_.at.is_split = true;
  EXPECT_TRUE(loses_push());
  auto kept = KeptPush::open({.memory = UniqueFd(::memfd_create("lives", 0)),
                              .empty_tally = model_->empty_tally(),
                              .keeps_dense = true},
                             model_->dense());
  ASSERT_TRUE(kept);
  options_.kept = kept->get();
  (*kept)->keep({0, 1}, Score(), nullptr, {});
  client_.repeated = Error{Errc::kUnreachable, "pserver 1 is gone"};
  EXPECT_FALSE(loses_push());
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

class LoopNotFinite : public LoopTest {
 protected:
  // Of a price for which the gradient is infinite.
  std::string train(const std::string& data) {
    folder_.write("train.csv", data);
    options_.train.passes = 1;
    options_.train.log_period = 1;
    testing::internal::CaptureStderr();
    ended_ = run();
    return testing::internal::GetCapturedStderr();
  }

  Status ended_;
};

TEST_F(LoopNotFinite, ABatchIsLeftOutOnAllPserversWithAWarning) {
  options_.train.skips_not_finite = true;
  const std::string log = train("1,2\n3e38,3e38\n2,4\n");
  ASSERT_TRUE(ended_) << ended_.error().message;
  ASSERT_EQ(client_.pushed.size(), 3U) << "all take part in the round";
  EXPECT_EQ(client_.pushed[0].samples, 1U);
  EXPECT_EQ(client_.pushed[1].samples, 0U);
  EXPECT_EQ(client_.pushed[1].cost, 0);
  EXPECT_EQ(client_.pushed[1].gradient, 0);
  EXPECT_EQ(client_.pushed[2].samples, 1U);
  EXPECT_NE(client_.pushed[2].gradient, 0);
  EXPECT_NE(log.find("trainer 0, pass 0, batch 2: the gradient of '_estimate.w0' is not finite, or "
                     "too large; the batch is left out on all pservers (1 so far)"),
            std::string::npos)
      << log;
  EXPECT_EQ(log.find("diverges"), std::string::npos) << log;
}

TEST_F(LoopNotFinite, TenInARowEndTheJob) {
  options_.train.skips_not_finite = true;
  std::string data;
  for (int i = 0; i < 9; ++i) data += "3e38,3e38\n";
  train(data + "1,2\n" + data);
  EXPECT_TRUE(ended_) << "never ten: " << ended_.error().message;
  train(data + "3e38,3e38\n1,2\n");
  ASSERT_FALSE(ended_);
  EXPECT_EQ(ended_.error().code, Errc::kFailed);
  EXPECT_NE(
      ended_.error().message.find("batch 10: the gradient of '_estimate.w0' is not finite, or "
                                  "too large, as in the 9 batches before"),
      std::string::npos)
      << ended_.error().message;
}

TEST_F(LoopNotFinite, UnlessAskedThePserverRefusesIt) {
  train("3e38,3e38\n");
  ASSERT_EQ(client_.pushed.size(), 1U);
  EXPECT_EQ(client_.pushed[0].samples, 1U);
  EXPECT_FALSE(std::isfinite(client_.pushed[0].gradient));
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
