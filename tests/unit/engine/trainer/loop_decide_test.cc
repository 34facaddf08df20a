// Jobs that end before their last pass, and their best pass.
#include <filesystem>
#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "engine/snapshot/retention.h"
#include "tests/unit/engine/trainer/loop_fixture.h"

namespace paddle::trainer {
namespace {

// All parameters at 1 estimate the price of 2 for the area of 1 right; the further, the worse.
class LoopDecide : public LoopTest {
 protected:
  void SetUp() override {
    LoopTest::SetUp();
    folder_.write("test.csv", "1,2\n");
    options_.test_data = options_.train_data;
    options_.test_data.share.files = {folder_ / "test.csv"};
    options_.save_dir = folder_ / "save";
    std::filesystem::create_directory(options_.save_dir);
    options_.train.passes = 9;
    options_.train.snapshots_kept = 1;
    options_.train.best = "rmse";
    options_.train.stop_after_worse = 2;
    figures_ = figures_of(model_->read(Score()));
  }
  std::vector<std::string> kept() const { return *snapshot::snapshot_names(options_.save_dir); }
  std::string best() const { return test::TemporaryFolder::read(options_.save_dir + "/BEST"); }
  std::string tests() const {
    std::vector<std::uint32_t> passes;
    const std::vector<PassTest> read = *read_tests(options_.save_dir);
    for (const PassTest& test : read) passes.push_back(test.pass);
    return fmt::format("{}", fmt::join(passes, " "));
  }
  std::string log_of_run() {
    testing::internal::CaptureStderr();
    const Status done = run();
    std::string log = testing::internal::GetCapturedStderr();
    EXPECT_TRUE(done) << done.error().message;
    return log;
  }
  // A snapshot of that pass, by an earlier run.
  void save(std::uint32_t pass) {
    ASSERT_TRUE(client_.empty_snapshots.save(pass_directory(options_.save_dir, pass)));
    client_.empty_snapshots.saved.clear();
  }
  void write(const std::vector<double>& rmse) {
    std::vector<PassTest> tests;
    for (std::uint32_t pass = 0; pass < rmse.size(); ++pass) {
      tests.push_back({pass, {{"cost", 1}, {"rmse", rmse[pass]}}});
    }
    ASSERT_TRUE(write_tests(options_.save_dir, tests));
  }
  void tell(EndReason reason, double rmse) {
    client_.told = encode(Decision{reason, {{"cost", 1}, {"rmse", rmse}}}, figures_);
  }

  std::vector<nn::Value> figures_;
};

TEST_F(LoopDecide, EndsAfterWorsePassesAndKeepsTheBest) {
  client_.after_pass = {0.5F, 1.0F, 0.6F, 0.7F};
  const std::string log = log_of_run();
  EXPECT_EQ(client_.calls, "end meet end meet end meet end meet meet ");
  EXPECT_EQ(kept(), (std::vector<std::string>{"pass-00001", "pass-00003"}));
  EXPECT_EQ(best(), "pass-00001\n");
  EXPECT_EQ(tests(), "0 1 2 3");
  EXPECT_NE(log.find("training ends with pass 4 (pass-00003): rmse was worse than 0, that of pass "
                     "2 (pass-00001), in the last 2 passes (train.stop_after_worse)"),
            std::string::npos)
      << log;
}

TEST_F(LoopDecide, EndsWithTheLastPassIfNothingEndsItBefore) {
  options_.train.passes = 2;
  client_.after_pass = {1.0F, 0.5F};
  const std::string log = log_of_run();
  EXPECT_EQ(client_.calls, "end meet end meet meet ");
  EXPECT_EQ(best(), "pass-00000\n");
  EXPECT_EQ(log.find("training ends"), std::string::npos) << log;
}

TEST_F(LoopDecide, TheFormerBestPassGoesWhenTheLastOneIsBetter) {
  options_.train.passes = 4;
  options_.train.stop_after_worse = 0;
  client_.after_pass = {0.9F, 0.6F, 0.7F, 1.0F};
  log_of_run();
  EXPECT_EQ(best(), "pass-00003\n");
  EXPECT_EQ(kept(), std::vector<std::string>{"pass-00003"});
}

// With as many as are kept anyway it stays, and without a limit all do.
TEST_F(LoopDecide, TheBestBeforeStaysAmongTheNewest) {
  options_.train.stop_after_worse = 0;
  client_.after_pass = {0.5F, 0.9F, 1.0F};
  options_.train.passes = 3;
  options_.train.snapshots_kept = 2;
  log_of_run();
  EXPECT_EQ(kept(), (std::vector<std::string>{"pass-00001", "pass-00002"}));
  options_.train.snapshots_kept = 0;
  client_.passes = 0;
  options_.save_dir += "-2";
  std::filesystem::create_directory(options_.save_dir);
  log_of_run();
  EXPECT_EQ(kept().size(), 3U);
}

TEST_F(LoopDecide, AWishThatIsFulfilledEndsItAtOnce) {
  options_.train.best.clear();
  options_.train.stop_after_worse = 0;
  options_.train.stop_when = config::parse_stop_when("rmse < 0.5");
  client_.after_pass = {0.5F, 0.9F, 1.0F};
  const std::string log = log_of_run();
  EXPECT_EQ(kept(), std::vector<std::string>{"pass-00001"});
  EXPECT_FALSE(std::filesystem::exists(options_.save_dir + "/BEST"));
  EXPECT_NE(log.find("with pass 2 (pass-00001): train.stop_when = 'rmse < 0.5' is fulfilled"),
            std::string::npos)
      << log;
}

// As the last one of a job with so many passes: it is saved, and whole.
TEST_F(LoopDecide, TheLastPassIsSavedInFull) {
  client_.after_pass = {1.0F, 0.6F, 0.5F};
  options_.train.saving_period = 2;
  options_.train.full_snapshot_period = 9;
  options_.train.snapshots_kept = 0;
  log_of_run();
  EXPECT_EQ(client_.empty_snapshots.saved,
            (std::vector<std::string>{"full pass-00001", "full pass-00002"}));
  EXPECT_EQ(best(), "pass-00001\n") << "pass 0 was not saved";
  options_.train.saving_period = 1;
  client_.empty_snapshots.saved.clear();
  client_.passes = 0;
  options_.save_dir += "-2";
  std::filesystem::create_directory(options_.save_dir);
  log_of_run();
  EXPECT_EQ(client_.empty_snapshots.saved,
            (std::vector<std::string>{"full pass-00000", "since pass-00000 pass-00001",
                                      "since pass-00000 pass-00002", "full pass-00002"}));
}

TEST_F(LoopDecide, WithoutAFolderItEndsAllTheSame) {
  options_.save_dir.clear();
  client_.after_pass = {1.0F, 0.5F, 0.6F};
  log_of_run();
  EXPECT_EQ(client_.passes, 3U);
}

TEST_F(LoopDecide, OthersEndWhenTheyHearIt) {
  options_.trainer_id = 1;
  tell(EndReason::kWorse, 0.25);
  const std::string log = log_of_run();
  EXPECT_EQ(client_.calls, "end meet meet ");
  EXPECT_NE(log.find("training ends with pass 1 (pass-00000): rmse was worse"), std::string::npos)
      << log;
  EXPECT_TRUE(kept().empty());
  EXPECT_FALSE(std::filesystem::exists(options_.save_dir + "/TESTS"));
}

// An earlier incarnation of trainer 0 sent another decision, and the others have received it.
TEST_F(LoopDecide, Trainer0ObeysWhatAllHear) {
  client_.after_pass = {1.0F, 0.5F, 0.6F, 0.7F};
  tell(EndReason::kNone, 0.25);
  options_.train.passes = 4;
  log_of_run();
  EXPECT_EQ(client_.passes, 4U);
  client_.passes = 0;
  tell(EndReason::kReached, 0.25);
  log_of_run();
  EXPECT_EQ(client_.passes, 1U);
}

TEST_F(LoopDecide, ACopyKeepsItsOwnBest) {
  options_.trainer_id = 1;
  options_.saves_copy = true;
  options_.train.passes = 3;
  client_.on_push = [this] {
    tell(EndReason::kNone, client_.passes == 0 ? 0.25 : 0.5 + static_cast<double>(client_.passes));
  };
  log_of_run();
  EXPECT_EQ(kept(), (std::vector<std::string>{"pass-00000", "pass-00002"}));
  EXPECT_EQ(best(), "pass-00000\n");
  EXPECT_EQ(tests(), "0 1 2");
}

TEST_F(LoopDecide, AJobThatGoesOnCountsOn) {
  options_.start_pass = 3;
  write({0.25, 0.5, 0.125, 0.0, 0.0});  // the last two are of passes that are trained again
  save(2);
  client_.passes = 3;
  client_.after_pass = {0, 0, 0, 0.5F, 0.5F};
  log_of_run();
  EXPECT_EQ(client_.calls, "meet end meet end meet meet ");
  EXPECT_EQ(tests(), "0 1 2 3 4");
  EXPECT_EQ(best(), "pass-00002\n");
  EXPECT_EQ(kept(), (std::vector<std::string>{"pass-00002", "pass-00004"}));
}

TEST_F(LoopDecide, AJobThatHadEndedDoesNotGoOn) {
  options_.start_pass = 3;
  write({0.25, 0.5, 0.5});
  save(2);
  log_of_run();
  EXPECT_EQ(client_.calls, "meet meet ");
  EXPECT_TRUE(client_.pushed.empty());
  EXPECT_TRUE(client_.empty_snapshots.saved.empty());
  // With more patience it does.
  options_.train.stop_after_worse = 3;
  client_.calls.clear();
  log_of_run();
  EXPECT_EQ(client_.calls, "meet end meet meet ");
}

// Trainer 0 was lost between the save of a pass and its test.
TEST_F(LoopDecide, APassThatWasNotTestedIsTestedBeforeTheJobGoesOn) {
  options_.start_pass = 2;
  write({0.25});
  save(1);
  client_.passes = 2;
  client_.after_pass = {0, 0.5F};
  log_of_run();
  EXPECT_EQ(client_.calls, "meet end meet meet ");
  EXPECT_EQ(tests(), "0 1 2");
}

TEST_F(LoopDecide, ATrainerThatIsBackDoesWhatTheOthersHaveHeard) {
  for (const bool ends : {true, false}) {
    for (const std::uint32_t trainer : {0U, 1U}) {
      options_.trainer_id = trainer;
      options_.start_pass = 2;
      options_.repeats_pass_end = true;
      options_.barriers_done = 1;
      options_.train.passes = 3;
      client_.calls.clear();
      tell(ends ? EndReason::kWorse : EndReason::kNone, 0.5);
      log_of_run();
      EXPECT_EQ(client_.calls, ends ? "repeat-meet meet meet " : "repeat-meet meet end meet meet ");
    }
  }
}

TEST_F(LoopDecide, ATrainerThatIsBackBeforeTheMeetingComesToIt) {
  options_.start_pass = 2;
  options_.repeats_pass_end = true;
  write({0.25, 0.0});
  client_.after_pass = {0.5F, 0.5F, 0.5F};
  client_.passes = 1;
  log_of_run();
  EXPECT_EQ(client_.calls, "repeat-end end meet end meet meet ");
  EXPECT_EQ(tests(), "0 1 2");
}

TEST_F(LoopDecide, ATrainerThatIsBackAfterTheLastMeetingLeaves) {
  options_.start_pass = 2;
  options_.repeats_pass_end = true;
  options_.barriers_done = 2;
  log_of_run();
  EXPECT_EQ(client_.calls, "");
}

TEST_F(LoopDecide, ATrainerThatIsBackAfterTheFirstMeetingOfARunHearsItAgain) {
  options_.start_pass = 2;
  options_.barriers_done = 1;
  tell(EndReason::kWorse, 0.5);
  log_of_run();
  EXPECT_EQ(client_.calls, "repeat-meet meet meet ");
  // One that has trained since has heard it.
  options_.batches_done = 2;
  options_.train.passes = 3;
  tell(EndReason::kNone, 0.5);
  client_.calls.clear();
  log_of_run();
  EXPECT_EQ(client_.calls, "end meet meet ");
}

TEST_F(LoopDecide, AFullDiskCostsTheFilesAndNoTraining) {
  std::filesystem::create_directories(options_.save_dir + "/TESTS/x");
  client_.after_pass = {1.0F, 0.5F, 0.6F};
  const std::string log = log_of_run();
  EXPECT_NE(log.find("only tests from now on count"), std::string::npos) << log;
  EXPECT_EQ(client_.passes, 3U);
}

class LoopTime : public LoopDecide {
 protected:
  void SetUp() override {
    LoopDecide::SetUp();
    options_.train.best.clear();
    options_.train.stop_after_worse = 0;
    options_.ends_at = std::chrono::steady_clock::now();
  }
};

TEST_F(LoopTime, ThatIsOverStopsTheJobWithASnapshot) {
  const Status ended = run();
  ASSERT_FALSE(ended);
  EXPECT_EQ(ended.error().code, Errc::kResumable);
  EXPECT_EQ(
      ended.error().message,
      "stopped because train.time_max is over in pass 1 (pass-00000), after batch 1 of trainer 0");
  EXPECT_EQ(client_.empty_snapshots.saved, std::vector<std::string>{"full pass-00000-000001"});
}

TEST_F(LoopTime, ThatIsNotOverStopsNothing) {
  *options_.ends_at += std::chrono::hours(1);
  EXPECT_TRUE(run());
  EXPECT_EQ(client_.passes, 9U);
}

TEST_F(LoopTime, IsKeptByTrainer0) {
  options_.trainer_id = 1;
  EXPECT_TRUE(run());
  EXPECT_FALSE(client_.is_stop_asked);
}

}  // namespace
}  // namespace paddle::trainer
