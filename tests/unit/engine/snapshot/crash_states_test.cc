// The writer, retention and the point of resuming against a loss of power at every moment.
#include "tests/unit/engine/snapshot/crash_fixture.h"

namespace paddle::snapshot {
namespace {

constexpr std::size_t kStatesMax = 200;  // of each moment
constexpr std::size_t kKilledStatesMax = 6;

class CrashStates : public CrashFixture {
 protected:
  // Runs the steps, with and without the exchange of names, and loads each state that a crash at
  // any moment may leave: it must be the outcome of the last step that returned, or of the one
  // that was under way.
  void survives(const std::vector<Step>& steps) {
    for (const bool can_exchange : {true, false}) {
      checked_.clear();
      test::MemoryFiles files(before_);
      if (!can_exchange) files.forbid_exchange();
      std::vector<std::size_t> ends{0};
      std::vector<std::string> outcomes{outcome(before_)};
      for (const Step& step : steps) {
        const Status done = step(files);
        ASSERT_TRUE(done) << done.error().message;
        ends.push_back(files.operations().size());
        outcomes.push_back(outcome(files.now()));
      }
      std::size_t returned = 0;
      for (std::size_t end = 0; end <= files.operations().size(); ++end) {
        while (returned + 1 < ends.size() && ends[returned + 1] == end) ++returned;
        std::set<std::string> allowed{outcomes[returned]};
        if (end > ends[returned]) allowed.insert(outcomes.at(returned + 1));
        check_moment(files, end, kStatesMax, allowed);
        if (HasFailure()) return;
      }
    }
  }

  // The same for a step that is killed at any moment, and then the job that goes on with `next`
  // when the power is lost.
  void survives_after_a_kill(const Step& killed, const Step& next) {
    for (const bool can_exchange : {true, false}) {
      checked_.clear();
      test::MemoryFiles all(before_);
      if (!can_exchange) all.forbid_exchange();
      ASSERT_TRUE(killed(all));
      const std::set<std::string> allowed{outcome(before_), outcome(all.now())};
      for (std::size_t kill = 1; kill < all.operations().size() && !HasFailure(); ++kill) {
        SCOPED_TRACE(fmt::format("killed after {}, '{}'", kill, all.operations()[kill - 1].what));
        test::MemoryFiles files = all.as_of(kill);
        EXPECT_TRUE(allowed.contains(newest(files)));
        ASSERT_TRUE(next(files));
        const std::string last = outcome(files.now());
        std::set<std::string> any = allowed;
        any.insert(last);
        const std::size_t end = files.operations().size();
        for (std::size_t lost = kill; lost < end && !HasFailure(); ++lost) {
          check_moment(files, lost, kKilledStatesMax, any);
        }
        check_moment(files, end, kKilledStatesMax, {last});
      }
    }
  }
};

TEST_F(CrashStates, ASaveOfAPassLeavesTheOneBeforeOrTheNewOne) {
  given({saves(0, 1)});
  survives({saves(1, 2), saves(2, 3)});
  EXPECT_GE(states_.size(), 450U);
}

// The folder too is to be there after a crash.
TEST_F(CrashStates, ASaveToANewFolderLeavesNothingOrAWholeSnapshot) {
  before_ = test::Tree();
  survives({[](FileSystem& files) { return files.make_directories(kFolder); }, saves(0, 1)});
}

TEST_F(CrashStates, TheFirstSaveLeavesNothingOrAWholeSnapshot) {
  survives({saves(0, 1)});
  EXPECT_GE(states_.size(), 200U);
}

TEST_F(CrashStates, ASaveOverASnapshotLeavesTheOldOneOrTheNewOne) {
  given({saves(0, 1), saves(1, 2)});
  survives({saves(1, 3), saves(1, 4)});
  EXPECT_GE(states_.size(), 1200U);
}

TEST_F(CrashStates, ASaveOfADeltaLeavesItsBaseOrBoth) {
  given({saves(0, 1)});
  survives({saves_delta(1, 2, 0), saves_delta(2, 3, 0)});
  EXPECT_GE(states_.size(), 650U);
}

TEST_F(CrashStates, RetentionRemovesOnlyWhatANewerOneReplaces) {
  given({saves(0, 1), saves(1, 2)});
  survives({saves(2, 3), keeps(2, 1), saves(3, 4), keeps(3, 1)});
  EXPECT_GE(states_.size(), 2000U);
}

TEST_F(CrashStates, RetentionRemovesBasesAfterTheirDeltas) {
  given({saves(0, 1), saves_delta(1, 2, 0), saves(2, 3)});
  survives({keeps(2, 1), saves_delta(3, 4, 2), keeps(3, 1)});
  EXPECT_GE(states_.size(), 1000U);
}

// A save that was killed while it replaced a snapshot; then retention removes what it left.
TEST_F(CrashStates, RetentionRemovesWhatAKilledSaveLeft) {
  given({saves(0, 1), saves(1, 2), [](FileSystem& files) -> Status {
           PADDLE_TRY_STATUS(files.make_directory(path_of(1) + ".tmp"));
           PADDLE_TRY(const auto directory, files.open_directory(path_of(1) + ".tmp"));
           PADDLE_TRY(const auto file, directory->create("_fc.w0"));
           return file->append(as_bytes(std::string_view("half")));
         }});
  survives({saves(2, 3), keeps(2, 2)});
  EXPECT_GE(states_.size(), 250U);
}

TEST_F(CrashStates, DamagedSnapshotsAreSetAsideAndTheirNamesSavedToAgain) {
  given({saves(0, 1), saves(1, 2), saves(2, 3), damages(path_of(1) + "/_fc.w0"),
         damages(path_of(2) + "/MANIFEST")});
  survives({resumes(), saves(1, 5), saves(2, 6)});
  EXPECT_GE(states_.size(), 450U);
}

TEST_F(CrashStates, ASaveThatWasKilledIsSafeUntilTheNextOneIsDurable) {
  given({saves(0, 1), saves(1, 2)});
  survives_after_a_kill(saves(1, 3), saves(1, 4));
  EXPECT_GE(states_.size(), 500U);
}

TEST_F(CrashStates, ARemovalThatWasKilledIsSafeUntilTheNextOneIsDurable) {
  given({saves(0, 1), saves_delta(1, 2, 0), saves(2, 3), saves(3, 4)});
  survives_after_a_kill(keeps(3, 1), saves(3, 5));
  EXPECT_GE(states_.size(), 1500U);
}

TEST_F(CrashStates, BeginningAnewIsFinishedAfterAKill) {
  given({saves(0, 1), saves_delta(1, 2, 0)});
  survives_after_a_kill(sets_aside(), resumes());
}

TEST_F(CrashStates, BeginningAnewMovesAllSnapshotsOrNone) {
  given({saves(0, 1), saves_delta(1, 2, 0), saves(2, 3)});
  survives({sets_aside(), saves(0, 5), sets_aside()});
  EXPECT_GE(states_.size(), 200U);
}

}  // namespace
}  // namespace paddle::snapshot
