// Savepoints against a loss of power at every moment, and on a disk that is full or fails.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>
#include <set>

#include "tests/support/files/crash_states.h"
#include "tests/unit/engine/snapshot/savepoint_fixture.h"

namespace paddle::snapshot {
namespace {

constexpr std::size_t kSavepointStatesMax = 150;  // of each moment
constexpr std::size_t kHistoryStatesMax = 8;
constexpr std::uint64_t kSeed = 2026;

using Texts = std::map<std::uint64_t, std::string>;              // of whole savepoints, by number
using History = std::map<std::uint64_t, std::set<std::string>>;  // texts that a number may have

class SavepointCrashes : public SavepointFixture {
 protected:
  // A shard that writes savepoints as pservers do, and knows how each has to read.
  class Writer {
   public:
    explicit Writer(FileSystem& files) : files_(&files), store_(open(files)) {}
    SavepointStore& store() { return *store_; }

    // A full one also where a delta cannot be.
    void savepoint(std::uint64_t number, bool is_full, int version = 0) {
      is_full = is_full || !can_follow_ || store_->has_failed();
      text_ = (is_full ? "" : text_) + text_of(number, version);
      history_[number].insert(text_);
      write(*store_, number, is_full, version);
      can_follow_ = true;
    }
    // A savepoint that does not come to its end.
    void begin_only(std::uint64_t number) {
      store_->begin(number, true);
      store_->add(3, Bytes(300));
      can_follow_ = false;
    }
    // Goes back to a whole savepoint, as after a lost pserver.
    Status go_back(std::uint64_t number) {
      text_ = read_text(*store_, number);
      EXPECT_TRUE(history_[number].contains(text_));
      PADDLE_TRY_STATUS(store_->forget_after(number));
      std::erase_if(history_, [&](const auto& each) { return each.first > number; });
      can_follow_ = true;
      return {};
    }
    // The process was killed, and another begins with what is whole.
    void restart() {
      store_ = nullptr;
      store_ = open(*files_);
      can_follow_ = false;
    }

    Texts whole() {
      Texts texts = contents(*store_);
      for (const auto& [number, text] : texts)
        EXPECT_TRUE(history_[number].contains(text)) << number;
      return texts;
    }
    const History& history() const { return history_; }

   private:
    FileSystem* files_;
    Store store_;
    bool can_follow_ = false;
    std::string text_;  // of the newest savepoint
    History history_;   // since the last go_back()
  };

  using Step = std::function<void(Writer&)>;

  static Step savepoints(std::uint64_t number, bool is_full, int version = 0) {
    return [=](Writer& writer) { writer.savepoint(number, is_full, version); };
  }
  static Step forgets_before(std::uint64_t number) {
    return [=](Writer& writer) { writer.store().forget_before(number); };
  }
  static Step goes_back(std::uint64_t number) {
    return [=](Writer& writer) { EXPECT_TRUE(writer.go_back(number)); };
  }
  static Step restarts() {
    return [](Writer& writer) { writer.restart(); };
  }
  static Step drops(std::uint64_t number) {
    return [=](Writer& writer) { writer.begin_only(number); };
  }

  // One step after another of a history drawn by `seed`.
  static Step random_step(std::uint64_t seed) {
    return [rng = std::make_shared<Rng>(seed)](Writer& writer) {
      const auto whole = writer.store().whole();
      const std::uint64_t newest = whole.empty() ? 0 : whole.back();
      const int version = static_cast<int>(rng->next() % 1000);
      switch (rng->next() % 10) {
        case 0:
          return writer.restart();
        case 1:
          return drops(newest + 1)(writer);
        case 2:
          return writer.store().forget_before(newest);
        case 3:
        case 4:
          if (whole.empty()) return;
          return goes_back(whole[rng->next() % whole.size()])(writer);
        default:
          return writer.savepoint(newest + 1 + rng->next() % 3, rng->next() % 3 == 0, version);
      }
    };
  }

  // Crashes at every moment while the steps run. What was whole before and after the step under way
  // is whole, and whatever else is whole reads as it was written.
  void survives(const std::vector<Step>& steps) {
    ::testing::internal::CaptureStderr();
    test::MemoryFiles files;
    Writer writer(files);
    std::size_t end = 0;
    Texts before;
    History history;
    for (const Step& step : steps) {
      step(writer);
      const Texts after = writer.whole();
      const std::size_t last = files.operations().size();
      History either = writer.history();
      for (const auto& [number, texts] : history) either[number].insert(texts.begin(), texts.end());
      Texts both = before;
      std::erase_if(both, [&](const auto& each) { return !after.contains(each.first); });
      for (; end < last && !HasFailure(); ++end) check_moment(files, end, both, either);
      before = after;
      history = writer.history();
    }
    check_moment(files, end, before, history);
    ::testing::internal::GetCapturedStderr();
  }

  void check_moment(const test::MemoryFiles& files, std::size_t end, const Texts& required,
                    const History& allowed) {
    SCOPED_TRACE(
        end == 0 ? "a crash before anything"
                 : fmt::format("a crash after {}, '{}'", end, files.operations()[end - 1].what));
    test::visit_crash_states(files, end, states_max_, kSeed, [&](const test::Tree& tree) {
      ++states_;
      if (!HasFailure()) check_state(files.with(tree), required, allowed);
    });
  }

  static void check_state(test::MemoryFiles files, const Texts& required, const History& allowed) {
    const Store store = open(files);
    ASSERT_NE(store, nullptr);
    const Texts found = contents(*store);
    for (const auto& [number, text] : required) {
      ASSERT_TRUE(found.contains(number)) << "savepoint " << number << " is lost";
    }
    for (const auto& [number, text] : found) {
      const auto texts = allowed.find(number);
      ASSERT_TRUE(texts != allowed.end()) << "savepoint " << number << " should not be there";
      ASSERT_TRUE(texts->second.contains(text)) << "savepoint " << number << " reads as " << text;
    }
    // Training goes on from there, and nothing that the crash left is in its way.
    const std::uint64_t from = found.empty() ? 0 : found.rbegin()->first;
    ASSERT_TRUE(store->forget_after(from));
    write(*store, from + 1, from == 0, 9);
    ASSERT_FALSE(store->has_failed());
    const std::string expected = (from == 0 ? "" : found.rbegin()->second) + text_of(from + 1, 9);
    EXPECT_EQ(contents(*open(files)).rbegin()->second, expected);
  }

  // Fails each change of the steps in turn, alone or with all that follow.
  void bears(const std::vector<Step>& steps) {
    for (const int error : {EIO, ENOSPC}) {
      for (const bool for_ever : {false, true}) {
        std::size_t number = 0;
        while (!HasFailure() && fail_one(steps, number, error, for_ever)) ++number;
        EXPECT_GE(number, 30U);
      }
    }
  }

 private:
  // False when there are fewer changes.
  bool fail_one(const std::vector<Step>& steps, std::size_t number, int error, bool for_ever) {
    test::MemoryFiles files;
    Writer writer(files);
    files.fail(number, error, for_ever);
    ::testing::internal::CaptureStderr();
    for (const Step& step : steps) step(writer);
    const std::string failed = files.failed();
    files.stop_failing();
    const std::string log = ::testing::internal::GetCapturedStderr();
    if (failed.empty()) return false;
    SCOPED_TRACE(fmt::format("'{}' fails{}", failed, for_ever ? " and all after it" : ""));
    // A file that failed may not have been removed, which nobody has to know.
    if (!failed.starts_with("remove ")) {
      EXPECT_NE(log.find(std::strerror(error)), log.npos) << log;
      EXPECT_NE(log.find(kFolder), log.npos) << log;
    }
    if (for_ever) {
      EXPECT_LE(std::ranges::count(log, '\n'), 2) << log;
    }
    ::testing::internal::CaptureStderr();
    check_moment(files, files.operations().size(), writer.whole(), writer.history());
    writer.savepoint(1000, false);
    EXPECT_FALSE(writer.store().has_failed());
    EXPECT_TRUE(writer.whole().contains(1000));
    check_moment(files, files.operations().size(), writer.whole(), writer.history());
    ::testing::internal::GetCapturedStderr();
    return true;
  }

 protected:
  std::size_t states_max_ = kSavepointStatesMax;
  std::size_t states_ = 0;
};

TEST_F(SavepointCrashes, SavepointsThatWereWholeAreReadAfterAnyLossOfPower) {
  survives({savepoints(10, true), savepoints(20, false), savepoints(30, false),
            savepoints(40, true), savepoints(50, false)});
  EXPECT_GE(states_, 600U);
}

TEST_F(SavepointCrashes, OlderSavepointsAreRemovedOnlyWhereNoneBuildsOnThem) {
  survives({savepoints(10, true), savepoints(20, false), savepoints(30, true), forgets_before(30),
            savepoints(40, false), forgets_before(40), savepoints(50, true), forgets_before(50)});
  EXPECT_GE(states_, 1000U);
}

// Savepoints that the shard has gone back behind never come again, though their numbers are written
// anew.
TEST_F(SavepointCrashes, GoingBackIsDurable) {
  survives({savepoints(10, true), savepoints(20, false), savepoints(30, false), goes_back(20),
            savepoints(30, false, 1), savepoints(40, false, 1), goes_back(10),
            savepoints(20, false, 2), savepoints(30, true, 2)});
  EXPECT_GE(states_, 900U);
}

TEST_F(SavepointCrashes, ASavepointThatWasDroppedOrLeftUnfinishedIsNeverThere) {
  survives({savepoints(10, true), drops(20), restarts(), savepoints(20, true), drops(25),
            goes_back(20), savepoints(30, false), restarts(), goes_back(20),
            savepoints(30, false, 1)});
  EXPECT_GE(states_, 1500U);
}

TEST_F(SavepointCrashes, NoHistoryOfAShardLosesASavepoint) {
  states_max_ = kHistoryStatesMax;
  for (std::uint64_t seed = 0; seed < 12 && !HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    survives(std::vector<Step>(12, random_step(seed)));
  }
  EXPECT_GE(states_, 5000U) << states_;
}

TEST_F(SavepointCrashes, AFailingDiskCostsSavepointsAndNothingElse) {
  bears({savepoints(10, true), savepoints(20, false), savepoints(30, true), forgets_before(30),
         savepoints(40, false), savepoints(50, false)});
}

TEST_F(SavepointCrashes, AnErrorOfGoingBackIsTold) {
  test::MemoryFiles files;
  Writer writer(files);
  for (const std::uint64_t number : {10, 20, 30}) writer.savepoint(number, false);
  for (std::size_t number = 0;; ++number) {
    files.fail(number, EIO, false);
    const Status forgotten = writer.store().forget_after(10);
    if (files.failed().empty()) break;
    ASSERT_FALSE(forgotten) << files.failed();
    EXPECT_EQ(forgotten.error().code, Errc::kResource);
    EXPECT_NE(forgotten.error().message.find(kFolder), std::string::npos);
    ASSERT_LT(number, 10U);
  }
  EXPECT_EQ(writer.store().whole(), std::vector<std::uint64_t>{10});
}

}  // namespace
}  // namespace paddle::snapshot
