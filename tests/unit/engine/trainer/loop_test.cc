#include <sys/mman.h>
#include <unistd.h>

#include <cmath>
#include <map>
#include <sstream>

#include <gtest/gtest.h>

#include "engine/snapshot/retention.h"
#include "tests/unit/engine/trainer/loop_fixture.h"

namespace paddle::trainer {
namespace {

// Only its client knows whether a loss matters.
TEST_F(LoopTest, ATrainerThatCannotLeaveFails) {
  client_.left = Error{Errc::kUnreachable, "lost rank 0 (node-0)"};
  const Status ended = run();
  ASSERT_FALSE(ended);
  EXPECT_EQ(ended.error().code, Errc::kUnreachable);
}

// Else a wrong pattern, or a reader that prints nothing, looks like a job that has trained.
TEST_F(LoopTest, APassWithoutARecordFails) {
  folder_.write("train.csv", "");
  client_.samples_of_pass = 0;
  const Status ended = run();
  ASSERT_FALSE(ended);
  EXPECT_EQ(ended.error().code, Errc::kData);
  EXPECT_EQ(
      ended.error().message,
      "pass 1 (pass-00000) had no record for any trainer; trainer 0 read " + folder_ / "train.csv");
  // One of several trainers may have none.
  client_.samples_of_pass = 3;
  EXPECT_TRUE(run());
}

// A test of no records would have the cost 0, which is the best of all.
TEST_F(LoopTest, HeldOutDataWithoutARecordFailsBeforeTheFirstPass) {
  options_.test_data = options_.train_data;
  options_.test_data.share.files = {folder_ / "test.csv"};
  for (const char* const text : {"", "\n\n", "\r\n"}) {
    folder_.write("test.csv", text);
    const Status ended = run();
    ASSERT_FALSE(ended);
    EXPECT_EQ(ended.error().code, Errc::kData);
    EXPECT_EQ(ended.error().message,
              "the held-out data has no record; trainer 0 read " + folder_ / "test.csv");
    EXPECT_TRUE(client_.pushed.empty());
  }
  options_.trainer_id = 1;  // trainer 0 tests
  EXPECT_TRUE(run());
}

// The cause is a part that is too small, or a column with a single text.
TEST_F(LoopTest, APartWithoutARecordFailsBeforeTheFirstPass) {
  options_.train_data.data.test_fraction = 1e-9;
  options_.test_data = options_.train_data;
  options_.test_data.held_out = true;
  const auto expect_failure = [&](const std::string& message, const std::string& hint) {
    const Status ended = run();
    ASSERT_FALSE(ended);
    EXPECT_EQ(ended.error().code, Errc::kData);
    EXPECT_EQ(ended.error().message, message + folder_ / "train.csv");
    EXPECT_NE(ended.error().hint.find(hint), std::string::npos) << ended.error().hint;
    EXPECT_TRUE(client_.pushed.empty());
  };
  expect_failure("[data] test_fraction = 1e-09 holds out no record of ", "raise it");
  folder_.write("train.csv", "1,2\n1,4\n1,6\n");
  const std::string rest = " with split_by = 'area' holds out ";
  options_.test_data.data.split_by = "area";
  expect_failure("[data] test_fraction = 1e-09" + rest + "no record of ",
                 "too few different texts");
  options_.test_data.data.test_fraction = 1 - 1e-9;
  expect_failure("[data] test_fraction = 0.999999999" + rest + "every record of ",
                 "too few different texts");
}

TEST_F(LoopTest, AKeyToSplitByThatNoRecordHasIsNamed) {
  options_.train_data.data.format = "jsonl";
  options_.train_data.data.split_by = "user";
  folder_.write("train.csv", "{\"area\":1,\"price\":2}\n{\"area\":2,\"price\":4}\n");
  // All records without the key are in one part.
  for (const double fraction : {1e-9, 1 - 1e-9}) {
    options_.train_data.data.test_fraction = fraction;
    options_.test_data = options_.train_data;
    options_.test_data.held_out = true;
    const Status ended = run();
    ASSERT_FALSE(ended);
    EXPECT_EQ(ended.error().code, Errc::kData);
    EXPECT_EQ(ended.error().message, "no record of " + folder_ / "train.csv" +
                                         " has the key 'user', which [data] split_by names");
    EXPECT_EQ(ended.error().hint, "name a key that records have, or leave split_by out");
    EXPECT_TRUE(client_.pushed.empty());
  }
  options_.test_data.data.split_by = "area";
  const Status ended = run();
  ASSERT_FALSE(ended);
  EXPECT_NE(ended.error().hint.find("too few different texts"), std::string::npos);
}

TEST_F(LoopTest, APassWithoutARecordFailsForEveryTrainer) {
  folder_.write("train.csv", "");
  client_.samples_of_pass = 0;
  options_.trainer_id = 1;
  Status ended = run();
  ASSERT_FALSE(ended);
  EXPECT_EQ(ended.error().code, Errc::kData);
  EXPECT_EQ(
      ended.error().message,
      "pass 1 (pass-00000) had no record for any trainer; trainer 1 read " + folder_ / "train.csv");
  options_.train_data.share.files.clear();
  ended = run();
  ASSERT_FALSE(ended);
  EXPECT_EQ(ended.error().message,
            "pass 1 (pass-00000) had no record for any trainer; trainer 1 read no file");
  // The job was stopped after the last batch of a pass, of which it had none.
  client_.at.samples = 7;
  EXPECT_TRUE(run());
}

// The job was stopped after the last batch of a pass, of which trainer 0 had none.
TEST_F(LoopTest, APassThatBeganBeforeAStopMayHaveNoFurtherRecord) {
  folder_.write("train.csv", "");
  client_.samples_of_pass = 0;
  options_.begins_within_pass = true;
  const Status ended = run();
  ASSERT_FALSE(ended);
  EXPECT_TRUE(
      ended.error().message.starts_with("pass 2 (pass-00001) had no record for any trainer"));
}

TEST_F(LoopTest, CostsOfOthersAreNoDivergenceToATrainerWithoutARecord) {
  folder_.write("train.csv", "");
  options_.train.stop_on_divergence = true;
  client_.cost_of_pass = 2.1;
  const Status ended = run();
  EXPECT_TRUE(ended) << ended.error().message;
  client_.cost_of_pass = std::numeric_limits<double>::infinity();
  EXPECT_FALSE(run());
}

// A snapshot of it says what may not change until the pass is over.
TEST_F(LoopTest, AStopInAPassTellsTheRecordsAndTheDataOfAllTrainers) {
  folder_.make("save");
  options_.save_dir = folder_ / "save";
  options_.order = {.batch_size = 1, .shuffle_records = 7};
  options_.data_hash = [] { return std::uint64_t{99}; };
  options_.train_data.num_trainers = 2;
  options_.train_data.share.records_split = false;
  client_.on_push = [&] { client_.is_stop_asked = client_.pushed.size() == 1; };
  const Status stopped = run();
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().code, Errc::kResumable) << stopped.error().message;
  ASSERT_TRUE(client_.empty_snapshots.place);
  EXPECT_EQ(client_.empty_snapshots.place->order, options_.order);
  EXPECT_EQ(client_.empty_snapshots.place->records, (std::vector<std::uint64_t>{2, 0}));
  EXPECT_EQ(client_.empty_snapshots.place->data, (std::vector<std::uint64_t>{99, 0}));
}

TEST_F(LoopTest, RecordsAreCountedOnFromThoseOfBatchesOfAnotherSize) {
  folder_.make("save");
  options_.save_dir = folder_ / "save";
  options_.batches_done = client_.at.batches = 5;
  options_.begins_within_pass = true;
  options_.train_data.origin = data::PassOrigin{0, 5, 1};
  client_.on_push = [&] { client_.is_stop_asked = true; };
  ASSERT_FALSE(run());
  ASSERT_TRUE(client_.empty_snapshots.place);
  EXPECT_EQ(client_.empty_snapshots.place->records, std::vector<std::uint64_t>{2});
}

// A process that is killed soon after its start has reported that it trained.
TEST_F(LoopTest, TheFirstBatchOfAProcessIsReportedAtOnce) {
  std::vector<std::uint64_t> batches;
  options_.publish = [&](const wire::Progress& progress) { batches.push_back(progress.batch()); };
  const Status done = run();
  ASSERT_TRUE(done) << done.error().message;
  ASSERT_GE(batches.size(), 2U);
  EXPECT_EQ(batches[0], 0U);
  EXPECT_EQ(batches[1], 1U);
}

// One that does not arrive because another pserver is lost too is sent again when that is back.
TEST_F(LoopTest, APushIsLostWhenNoProcessHasIt) {
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
  auto kept = ReplayLog::open({.memory = UniqueFd(::memfd_create("lives", 0)),
                               .empty_tally = model_->empty_tally(),
                               .keeps_dense = true},
                              model_->dense());
  ASSERT_TRUE(kept);
  options_.kept = kept->get();
  (*kept)->keep({0, 1}, Score(), nullptr, {});
  client_.repeated = Error{Errc::kUnreachable, "pserver 1 is gone"};
  EXPECT_FALSE(loses_push());
}

// The first push of a pass: all that comes before it is over, and is not done again.
TEST_F(LoopTest, APushOfTheNextPassIsLostBeforeTheEndOfThePassIsRepeated) {
  client_.at.is_split = true;
  options_.start_pass = 1;
  options_.barriers_done = 1;
  MetricsFile metrics = *MetricsFile::open("");
  for (const bool repeats_pass_end : {true, false}) {
    for (const char* const best : {"", "rmse"}) {
      options_.repeats_pass_end = repeats_pass_end;
      options_.train.best = best;
      Loop loop(options_, dictionary_, *model_, client_, metrics);
      EXPECT_FALSE(loop.run());
      EXPECT_TRUE(loop.has_lost_push());
      EXPECT_EQ(client_.calls, "");
    }
  }
}

// Rows that are pushed without rounds may be batches behind the dense gradients.
TEST_F(LoopTest, APushIsRepeatedThoughTheOtherKindIsBatchesBehindIt) {
  ASSERT_TRUE(client_.pull_dense(model_->dense()));
  auto kept = ReplayLog::open({.memory = UniqueFd(::memfd_create("lives", 0)),
                               .empty_tally = model_->empty_tally(),
                               .keeps_dense = true},
                              model_->dense());
  ASSERT_TRUE(kept);
  options_.kept = kept->get();
  for (const bool is_split : {true, false}) {
    (*kept)->keep({0, 3}, Score(), nullptr, {});
    client_.at.is_split = is_split;
    client_.repeated_batch = 0;
    EXPECT_TRUE(run());
    EXPECT_EQ(client_.repeated_batch, is_split ? 3U : 0U);
  }
}

// The first incarnation ends in the save that follows the end of pass 0, and leaves its memory.
TEST_F(LoopTest, AnEndOfAPassThatIsRepeatedIsWrittenOnce) {
  const UniqueFd memory(::memfd_create("lives", 0));
  const std::string metrics = folder_ / "metrics.jsonl";
  ASSERT_TRUE(client_.pull_dense(model_->dense()));
  const auto live = [&](std::uint32_t start_pass) {
    auto kept = ReplayLog::open(
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
  // Trains on a price for which the gradient is infinite.
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
  EXPECT_NE(log.find("trainer 0, pass 1 (pass-00000), batch 2: the gradient of '_estimate.w0' is "
                     "not finite, or "
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
  options_.publish = [&](const wire::Progress& progress) {
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

// A look at a job that is done would else show the cost of no sample.
TEST_F(LoopSaves, TheLastCostIsReportedUntilThereIsANewerOne) {
  std::vector<double> costs;
  options_.publish = [&](const wire::Progress& progress) { costs.push_back(progress.cost()); };
  const Status done = run();
  ASSERT_TRUE(done) << done.error().message;
  ASSERT_GE(costs.size(), 3U);
  EXPECT_EQ(costs[0], 0) << "before the first batch";
  for (std::size_t i = 1; i < costs.size(); ++i) EXPECT_GT(costs[i], 0) << i;
}

TEST_F(LoopSaves, ASaveThatSucceedsEndsTheFailure) {
  fail("pass-00001");
  std::string told;
  options_.publish = [&](const wire::Progress& progress) { told = progress.save_failure(); };
  ASSERT_TRUE(run());
  EXPECT_EQ(told, "");
}

TEST_F(LoopSaves, TheSnapshotThatWasGoneBackToIsReported) {
  options_.restored_from = "pass-00001, since pass-00002 is damaged: w";
  std::string told;
  options_.publish = [&](const wire::Progress& progress) { told = progress.restored_from(); };
  ASSERT_TRUE(run());
  EXPECT_EQ(told, options_.restored_from);
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
