// The writer, retention and the point of resuming on a disk that is full or fails.
#include <cerrno>
#include <cstring>

#include "tests/unit/engine/snapshot/crash_fixture.h"

namespace paddle::snapshot {
namespace {

constexpr std::size_t kFaultStatesMax = 12;  // of each fault

class DiskFaults : public CrashFixture {
 protected:
  // Fails each change of `step` in turn, alone or with all that follow. The outcome is the old one
  // or the new one, which it is for certain when the step returned none the less; no crash changes
  // that. The step succeeds once the disk is well again.
  void bears(const Step& step) {
    for (const int error : {EIO, ENOSPC}) {
      for (const bool for_ever : {false, true}) {
        for (const bool can_exchange : {true, false}) {
          std::size_t number = 0;
          while (!HasFailure() && fail_one(step, number, error, for_ever, can_exchange)) ++number;
          EXPECT_GE(number, least_changes_);
        }
      }
    }
  }

  std::size_t least_changes_ = 15;

 private:
  // False when the step has fewer changes.
  bool fail_one(const Step& step, std::size_t number, int error, bool for_ever, bool can_exchange) {
    test::MemoryFiles files(before_);
    if (!can_exchange) files.forbid_exchange();
    const std::string before = outcome(before_);
    test::MemoryFiles good = files;
    EXPECT_TRUE(step(good));
    const std::string after = outcome(good.now());
    files.fail(number, error, for_ever);
    const Status done = step(files);
    const std::string failed = files.failed();
    files.stop_failing();
    if (failed.empty()) return false;
    SCOPED_TRACE(fmt::format("'{}' fails{}{}", failed, for_ever ? " and all after it" : "",
                             can_exchange ? "" : ", no exchange"));
    if (!done) {
      EXPECT_EQ(done.error().code, Errc::kResource) << done.error().message;
      EXPECT_NE(done.error().message.find(std::strerror(error)), std::string::npos)
          << done.error().message;
      EXPECT_NE(done.error().message.find(kFolder), std::string::npos) << done.error().message;
    }
    const std::set<std::string> allowed =
        done ? std::set<std::string>{after} : std::set<std::string>{before, after};
    check_moment(files, files.operations().size(), kFaultStatesMax, allowed);
    EXPECT_TRUE(allowed.contains(newest(files)));
    const Status again = step(files);
    EXPECT_TRUE(again) << again.error().message;
    EXPECT_EQ(newest(files), after);
    check_moment(files, files.operations().size(), kFaultStatesMax, {after});
    return true;
  }
};

TEST_F(DiskFaults, ASaveThatFailsLeavesTheSnapshotBeforeAndTheNextOneSucceeds) {
  given({saves(0, 1)});
  bears(saves(1, 2));
}

TEST_F(DiskFaults, ASaveThatFailsLeavesTheSnapshotThatItWouldHaveReplaced) {
  given({saves(0, 1), saves(1, 2)});
  bears(saves(1, 3));
}

TEST_F(DiskFaults, ADeltaThatFailsLeavesItsBase) {
  given({saves(0, 1), saves_delta(1, 2, 0)});
  bears(saves_delta(1, 3, 0));
}

TEST_F(DiskFaults, RetentionThatFailsLeavesWholeSnapshots) {
  given({saves(0, 1), saves_delta(1, 2, 0), saves(2, 3), saves(3, 4)});
  bears(keeps(3, 1));
}

TEST_F(DiskFaults, SettingAsideThatFailsLosesNoSnapshot) {
  least_changes_ = 3;
  given({saves(0, 1), saves(1, 2), saves(2, 3), damages(path_of(1) + "/_fc.w0"),
         damages(path_of(2) + "/MANIFEST")});
  bears(resumes());
}

TEST_F(DiskFaults, BeginningAnewThatFailsMovesAllSnapshotsOrNone) {
  least_changes_ = 8;
  given({saves(0, 1), saves_delta(1, 2, 0), saves(2, 3)});
  bears(sets_aside());
}

}  // namespace
}  // namespace paddle::snapshot
