#include "remote/agent/process/record.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <optional>

#include <gtest/gtest.h>

#include "remote/agent/process/key_files.h"
#include "tests/support/small_disk.h"
#include "tests/support/temporary_folder.h"

namespace {
std::atomic<int> syncs = 0;
}  // namespace

// In place of the C library's, in this program.
extern "C" int fsync(int fd) {
  ++syncs;
  return static_cast<int>(::syscall(SYS_fsync, fd));
}

namespace paddle::agent {
namespace {

wire::agent::PidRecord incarnation(std::uint32_t number) {
  wire::agent::PidRecord record;
  record.set_incarnation(number);
  return record;
}

using test::fill;

// Records this program as the supervisor of the process in `place`.
Status supervise_here(const Root& root, const SafePath& place) {
  ProcStat own;
  if (!read_stat(::getpid(), own)) return system_error(Errc::kFailed, "read /proc");
  wire::agent::PidRecord record = incarnation(1);
  record.set_boot_id(boot_id());
  record.set_supervisor(own.pid);
  record.set_supervisor_start_ticks(own.start_ticks);
  return write_record(root, place, "pid", record);
}

// A disk that can only be read, or fails, also takes no file that is ready for it. No record needs
// the keys of the job, which may be on that disk.
TEST(RecordTest, WhereTheDiskTakesNothingRecordsGoToMemoryUntilItDoes) {
  const test::TemporaryFolder folder;
  const auto work = [&] {
    const auto root = open_root(folder.path());
    ASSERT_TRUE(root) << root.error().message;
    const SafePath place = *process_folder("job", "trainer-0");
    ASSERT_TRUE(place.make_directories(root->fd.get()));
    ASSERT_TRUE(write_key_file(*root, "job", "trainer-0", as_bytes("secret"), ""));
    auto memory = make_record_memory();
    ASSERT_TRUE(memory);
    ASSERT_TRUE(supervise_here(*root, place));
    ASSERT_TRUE(write_record(*root, place, "incarnation", incarnation(1)));
    ASSERT_TRUE(write_record(*root, place, "notice", incarnation(1)));
    reserve_records(*root, place);
    const auto mounted = [&](unsigned long flags) {
      return ::mount("none", folder.path().c_str(), "tmpfs", MS_REMOUNT | flags, nullptr) == 0;
    };
    ASSERT_TRUE(mounted(MS_RDONLY));
    for (const char* const file : {"incarnation", "notice", "exit", "stop", "pid", "restarts"}) {
      for (const std::uint32_t number : {2U, 3U}) {
        const Status written = write_record(*root, place, file, incarnation(number));
        EXPECT_TRUE(written) << written.error().message;
      }
      EXPECT_TRUE(has_record(*root, place, file)) << file;
    }
    EXPECT_EQ(last_incarnation(*root, place), 3U);
    EXPECT_FALSE(write_record(*root, place, "spec", incarnation(2)))
        << "nothing can be started there";
    remove_record(*root, place, "stop");
    EXPECT_FALSE(has_record(*root, place, "stop"));
    EXPECT_FALSE(move_records_to_disk(*root, place, "job"));
    EXPECT_TRUE(is_end_in_memory(*root, place));
    ASSERT_TRUE(mounted(0));
    EXPECT_EQ(last_incarnation(*root, place), 3U) << "what is in memory is newer";
    ASSERT_TRUE(write_record(*root, place, "incarnation", incarnation(4)));
    EXPECT_EQ(last_incarnation(*root, place), 4U);
    EXPECT_TRUE(move_records_to_disk(*root, place, "job"));
    EXPECT_FALSE(is_end_in_memory(*root, place));
    memory->reset();
    EXPECT_TRUE(has_record(*root, place, "exit")) << "it is on disk";
    EXPECT_EQ(last_incarnation(*root, place), 4U);
  };
  if (!test::on_small_disk(folder.path(), "256k", work))
    GTEST_SKIP() << "nothing can be mounted here";
}

TEST(RecordTest, WhatIsInMemoryEndsWithTheProcessThatHoldsIt) {
  const test::TemporaryFolder folder;
  const auto work = [&] {
    const auto root = open_root(folder.path());
    ASSERT_TRUE(root) << root.error().message;
    const SafePath place = *process_folder("job", "trainer-0");
    ASSERT_TRUE(place.make_directories(root->fd.get()));
    auto memory = make_record_memory();
    ASSERT_TRUE(memory);
    ASSERT_TRUE(supervise_here(*root, place));
    ASSERT_TRUE(write_record(*root, place, "exit", incarnation(1)));
    ASSERT_EQ(::mount("none", folder.path().c_str(), "tmpfs", MS_REMOUNT | MS_RDONLY, nullptr), 0);
    wire::agent::Restarts many;
    for (int i = 0; i < 32; ++i) many.add_restarts()->set_hang(std::string(100, 'x'));
    EXPECT_TRUE(write_record(*root, place, "restarts", many));
    EXPECT_TRUE(has_record(*root, place, "restarts"));
    many.add_restarts()->set_hang(std::string(20'000, 'x'));
    EXPECT_FALSE(write_record(*root, place, "restarts", many)) << "too long for the memory";
    EXPECT_TRUE(has_record(*root, place, "restarts")) << "the one before stays";
    memory->reset();
    EXPECT_FALSE(has_record(*root, place, "restarts"));
    EXPECT_FALSE(write_record(*root, place, "exit", incarnation(2)));
    EXPECT_TRUE(has_record(*root, place, "exit")) << "the one on disk";
    EXPECT_TRUE(move_records_to_disk(*root, place, "job")) << "there are none";
  };
  if (!test::on_small_disk(folder.path(), "256k", work))
    GTEST_SKIP() << "nothing can be mounted here";
}

TEST(RecordTest, AFullDiskLosesNeitherAnEndNorAnotherStart) {
  const test::TemporaryFolder folder;
  const auto work = [&] {
    const auto root = open_root(folder.path());
    ASSERT_TRUE(root) << root.error().message;
    const SafePath place = *process_folder("job", "trainer-0");
    ASSERT_TRUE(place.make_directories(root->fd.get()));
    ASSERT_TRUE(write_record(*root, place, "incarnation", incarnation(1)));
    ASSERT_TRUE(write_record(*root, place, "notice", incarnation(1)));
    reserve_records(*root, place);
    fill(folder / "full");
    EXPECT_TRUE(write_record(*root, place, "incarnation", incarnation(2)));
    EXPECT_EQ(last_incarnation(*root, place), 2U);
    for (const char* const file : {"pid", "exit"}) {
      EXPECT_TRUE(write_record(*root, place, file, incarnation(2))) << file;
      EXPECT_TRUE(has_record(*root, place, file)) << file;
    }
    // The report of every second, of which the last one says why the process ends.
    for (std::uint32_t second = 1; second <= 5; ++second) {
      fill(folder / "full-still");
      EXPECT_TRUE(write_record(*root, place, "notice", incarnation(second))) << second;
      const auto path = SafePath::parse(place.str() + "/notice");
      ASSERT_TRUE(path);
      const auto text = read_below(*root, *path, 1000);
      ASSERT_TRUE(text);
      EXPECT_EQ(*text, incarnation(second).SerializeAsString());
    }
    fill(folder / "full-again");
    const Status lost = write_record(*root, place, "restarts", incarnation(2));
    ASSERT_FALSE(lost) << "there is no more room";
    EXPECT_EQ(lost.error().message,
              "jobs/job/proc/trainer-0/restarts: write: No space left on device");
    const auto names = names_in(*root, place.str());
    ASSERT_TRUE(names);
    for (const std::string& name : *names) {
      EXPECT_EQ(name.find(".new-"), std::string::npos) << "what could not be written is left";
    }
    ::unlink((folder / "full").c_str());
    reserve_records(*root, place);
    fill(folder / "full");
    EXPECT_TRUE(write_record(*root, place, "exit", incarnation(3))) << "there is room again";
  };
  if (!test::on_small_disk(folder.path(), "256k", work))
    GTEST_SKIP() << "nothing can be mounted here";
}

TEST(RecordTest, AProcessThatWasStartedAgainOnAFullDiskIsHeardFurther) {
  const test::TemporaryFolder folder;
  const auto work = [&] {
    const auto root = open_root(folder.path());
    ASSERT_TRUE(root) << root.error().message;
    const SafePath place = *process_folder("job", "trainer-0");
    ASSERT_TRUE(place.make_directories(root->fd.get()));
    ASSERT_TRUE(write_record(*root, place, "notice", incarnation(1)));
    reserve_records(*root, place);
    fill(folder / "full");
    forget_notice(*root, place);
    for (std::uint32_t second = 1; second <= 3; ++second) {
      fill(folder / "full-still");
      EXPECT_TRUE(write_record(*root, place, "notice", incarnation(second))) << second;
    }
  };
  if (!test::on_small_disk(folder.path(), "256k", work))
    GTEST_SKIP() << "nothing can be mounted here";
}

TEST(RecordTest, NoDiskHoldsUpThatANoticeIsRead) {
  const test::TemporaryFolder folder;
  const auto root = open_root(folder.path());
  ASSERT_TRUE(root);
  const SafePath place = *process_folder("job", "trainer-0");
  ASSERT_TRUE(place.make_directories(root->fd.get()));
  reserve_records(*root, place);
  const auto syncs_of = [&](const char* file) {
    const int before = syncs;
    EXPECT_TRUE(write_record(*root, place, file, incarnation(1)));
    return syncs - before;
  };
  EXPECT_EQ(syncs_of("notice"), 0);
  for (const char* const file : {"spec", "incarnation", "pid", "exit", "restarts", "stop"})
    EXPECT_EQ(syncs_of(file), 2) << file;
}

TEST(RecordTest, ANoticeThatIsForgottenTellsNothing) {
  const test::TemporaryFolder folder;
  const auto root = open_root(folder.path());
  ASSERT_TRUE(root);
  const SafePath place = *process_folder("job", "trainer-0");
  ASSERT_TRUE(place.make_directories(root->fd.get()));
  wire::agent::ProcessSpec spec;
  spec.set_job("job");
  spec.set_name("trainer-0");
  ASSERT_TRUE(write_record(*root, place, "spec", spec));
  ASSERT_TRUE(write_record(*root, place, "pid", incarnation(1)));
  wire::Notice notice;
  notice.set_phase(wire::PHASE_FAILED);
  notice.set_received_steady_ms(7);
  notice.mutable_progress()->set_batch(3);
  ASSERT_TRUE(write_record(*root, place, "notice", notice));
  forget_notice(*root, place);
  const auto record = read_record(*root, "job", "trainer-0");
  ASSERT_TRUE(record);
  const wire::Notice left = record->notice.value_or(wire::Notice());
  EXPECT_EQ(left.phase(), wire::PHASE_STARTING);
  EXPECT_EQ(left.received_steady_ms(), 0);
  EXPECT_FALSE(left.has_progress());
}

class SteadyAges : public testing::Test {
 protected:
  void SetUp() override {
    auto root = open_root(folder_.path());
    ASSERT_TRUE(root) << root.error().message;
    root_.emplace(*std::move(root));
    record_.pid.set_boot_id(boot_id());
    record_.pid.set_started_unix_ms(unix_ms() + kHourMs);
  }
  wire::agent::ProcessStatus status() const { return status_of(*root_, record_); }

  // The clock has been set back by so much since.
  static constexpr std::int64_t kHourMs = 3'600'000;
  test::TemporaryFolder folder_;
  std::optional<Root> root_;
  Record record_;
};

TEST_F(SteadyAges, OfNoticesAreThoseOfTheClockSinceBoot) {
  EXPECT_FALSE(status().has_notice_age_ms());
  wire::Notice& notice = record_.notice.emplace();
  EXPECT_FALSE(status().has_notice_age_ms()) << "nothing was heard yet";
  notice.mutable_progress()->set_unix_ms(unix_ms() + kHourMs);
  notice.set_received_steady_ms(steady_ms() - 4'000);
  EXPECT_EQ(status().silent_ms(), 0U) << "a supervisor of an earlier release tells no time";
  notice.set_reported_steady_ms(steady_ms() - 7'000);
  EXPECT_GE(status().notice_age_ms(), 4'000U);
  EXPECT_LT(status().notice_age_ms(), 6'000U);
  EXPECT_GE(status().silent_ms(), 7'000U);
  EXPECT_LT(status().silent_ms(), 9'000U);
  record_.pid.set_boot_id("before");
  EXPECT_FALSE(status().has_notice_age_ms()) << "of another boot";
  EXPECT_EQ(status().silent_ms(), 0U);
}

TEST_F(SteadyAges, OfRestartsAreThoseOfTheClockSinceBoot) {
  wire::agent::Restart& restart = *record_.restarts.emplace().add_restarts();
  restart.set_ended_unix_ms(unix_ms() + kHourMs);
  restart.set_ended_steady_ms(steady_ms() - 5'000);
  restart.set_boot_id(boot_id());
  EXPECT_GE(status().restarts(0).age_ms(), 5'000U);
  EXPECT_LT(status().restarts(0).age_ms(), 7'000U);
  restart.set_boot_id("before");
  restart.set_ended_unix_ms(unix_ms() - 9'000);
  EXPECT_GE(status().restarts(0).age_ms(), 9'000U);
  EXPECT_LT(status().restarts(0).age_ms(), 11'000U);
}

}  // namespace
}  // namespace paddle::agent
