// Notices as a supervisor reads them from the pipe.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <set>
#include <thread>

#include <gtest/gtest.h>

#include "engine/commands/supervision.h"
#include "proto/supervision.pb.h"
#include "tests/support/temporary_folder.h"

namespace paddle::commands {
namespace {

class NoticeTest : public testing::Test {
 protected:
  void SetUp() override {
    std::signal(SIGPIPE, SIG_IGN);  // as main() does: later tests have nobody at the other end
    int ends[2];
    ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    read_ = ends[0];
    write_ = ends[1];
    ::fcntl(read_, F_SETFL, O_NONBLOCK);
    ::fcntl(write_, F_SETFD, 0);
    ::setenv("PADDLECTL_NOTICE_FD", std::to_string(write_).c_str(), 1);
    open_notices();
  }
  void TearDown() override { ::close(read_); }

  std::vector<wire::Notice> received() const {
    std::string bytes(1U << 16U, '\0');
    const ssize_t got = ::read(read_, bytes.data(), bytes.size());
    bytes.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
    std::vector<wire::Notice> notices;
    while (!bytes.empty()) {
      std::uint32_t size = 0;
      std::memcpy(&size, bytes.data(), sizeof size);
      notices.emplace_back();
      EXPECT_TRUE(notices.back().ParseFromString(bytes.substr(sizeof size, size)));
      bytes.erase(0, sizeof size + size);
    }
    return notices;
  }

  int read_ = -1;
  int write_ = -1;
};

}  // namespace

TEST_F(NoticeTest, TellsThePhasesAndStoppingOnce) {
  notify_ready();
  notify_stopping();
  notify_stopping();
  const auto notices = received();
  ASSERT_EQ(notices.size(), 2U);
  EXPECT_EQ(notices[0].phase(), wire::PHASE_READY);
  EXPECT_EQ(notices[1].phase(), wire::PHASE_STOPPING);
}

TEST_F(NoticeTest, ProgressKeepsThePhaseAndAPhaseTheProgress) {
  notify_ready();
  wire::Progress progress;
  progress.set_batch(7);
  for (std::uint32_t i = 0; i < 4096; ++i) progress.add_awaited_trainers(i);
  notify_progress(progress);
  const auto notices = received();
  ASSERT_EQ(notices.size(), 2U);
  EXPECT_EQ(notices[1].phase(), wire::PHASE_READY);
  EXPECT_EQ(notices[1].progress().batch(), 7U);
  EXPECT_GT(notices[1].progress().unix_ms(), 1'600'000'000'000);
  EXPECT_LT(notices[1].ByteSizeLong(), 4000U) << "one write must hold it";
}

TEST_F(NoticeTest, ASilenceIsAddedToTheProgressThatWasToldLast) {
  using std::chrono::milliseconds;
  notify_silence(1, milliseconds(3'000));
  wire::Progress progress;
  progress.set_batch(7);
  progress.add_silent()->set_index(4);
  notify_progress(progress);
  const auto told = received();
  ASSERT_EQ(told.size(), 2U);
  EXPECT_FALSE(told[0].has_progress()) << "there was none";
  notify_silence(4, milliseconds(3'100));
  notify_silence(2, milliseconds(3'200));
  const auto notices = received();
  ASSERT_EQ(notices.size(), 2U);
  const wire::Progress& last = notices[1].progress();
  EXPECT_EQ(last.batch(), 7U);
  EXPECT_EQ(last.unix_ms(), told[1].progress().unix_ms()) << "it is no progress";
  ASSERT_EQ(last.silent_size(), 2);
  EXPECT_EQ(last.silent(0).ms(), 3'100U);
  EXPECT_EQ(last.silent(1).index(), 2U);
  for (std::uint32_t i = 100; i < 1'000; ++i) {
    notify_silence(i, milliseconds(3'000));
    EXPECT_LT(received().back().ByteSizeLong(), 4000U) << "one write must hold it";
  }
  notify_progress(wire::Progress());
  EXPECT_EQ(received().back().progress().silent_size(), 0);
}

TEST_F(NoticeTest, APulseComesAtOnceAndThenEverySecondFromAThreadOfItsOwn) {
  notify_ready();
  std::atomic<std::uint64_t> steps = 7;
  const PulseThread thread([&steps] {
    wire::Pulse pulse;
    pulse.set_steps(steps);
    return pulse;
  });
  std::set<std::uint64_t> seen;
  for (int i = 0; i < 100 && !seen.contains(8); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    for (const wire::Notice& notice : received()) {
      if (!notice.has_pulse()) continue;
      EXPECT_EQ(notice.phase(), wire::PHASE_READY) << "a pulse keeps the rest";
      seen.insert(notice.pulse().steps());
      steps = 8;
    }
  }
  EXPECT_EQ(seen, (std::set<std::uint64_t>{7, 8}));
}

TEST_F(NoticeTest, AFailureThatIsTooLongIsCutToOneWrite) {
  notify_failed(Error{Errc::kData, std::string(100'000, 'x'), "look at it"});
  const auto notices = received();
  ASSERT_EQ(notices.size(), 1U);
  EXPECT_EQ(notices[0].phase(), wire::PHASE_FAILED);
  EXPECT_EQ(notices[0].failure().code(), static_cast<int>(Errc::kData));
  EXPECT_EQ(notices[0].failure().hint(), "look at it");
  EXPECT_LT(notices[0].failure().message().size(), 4096U);
}

TEST_F(NoticeTest, AFailureKeepsTheNumbersOfTheLastReportAndFitsOneWrite) {
  wire::Progress progress;
  progress.set_pass(3);
  progress.set_batch(7);
  progress.set_updates(9);
  progress.set_save_failure(std::string(1500, 'x'));
  progress.set_restored_from(std::string(1500, 'x'));
  for (std::uint32_t i = 0; i < 100; ++i) progress.add_awaited_trainers(1'000'000 + i);
  notify_progress(progress);
  (void)received();
  notify_failed(Error{Errc::kResource, std::string(1500, 'y'), std::string(1500, 'z')});
  const auto notices = received();
  ASSERT_EQ(notices.size(), 1U);
  EXPECT_EQ(notices[0].progress().pass(), 3U);
  EXPECT_EQ(notices[0].progress().batch(), 7U);
  EXPECT_EQ(notices[0].progress().updates(), 9U);
  EXPECT_LT(notices[0].ByteSizeLong(), 4000U);
}

TEST_F(NoticeTest, ChildrenOfTheProgramGetNeitherDescriptorNorVariable) {
  EXPECT_EQ(std::getenv("PADDLECTL_NOTICE_FD"), nullptr);
  EXPECT_EQ(::fcntl(write_, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
}

TEST_F(NoticeTest, ADescriptorThatIsNoPipeIsLeftAlone) {
  ::setenv("PADDLECTL_NOTICE_FD", "1", 1);
  open_notices();
  notify_ready();
  ASSERT_EQ(received().size(), 1U) << "the pipe that was there goes on";
}

// The memory that a supervisor hands to each process of a trainer.

class TrainerMemory : public testing::Test {
 protected:
  // Hands the descriptor over. Returns the number that take_trainer_memory() has taken; -1: none.
  static int taken(int fd) {
    ::setenv("PADDLECTL_MEMORY_FD", std::to_string(fd).c_str(), 1);
    testing::internal::CaptureStderr();
    const int number = take_trainer_memory().release();
    const std::string log = testing::internal::GetCapturedStderr();
    EXPECT_EQ(std::getenv("PADDLECTL_MEMORY_FD"), nullptr);
    EXPECT_EQ(log.find("PADDLECTL_MEMORY_FD is not the supervisor's") == std::string::npos,
              number >= 0)
        << log;
    return number;
  }
};

TEST_F(TrainerMemory, IsThatOfTheSupervisor) {
  const int fd = ::memfd_create("paddlectl-trainer", 0);
  EXPECT_EQ(taken(fd), fd);
  EXPECT_EQ(::fcntl(fd, F_GETFD), FD_CLOEXEC);
  ::close(fd);
}

// A launcher has closed the descriptor, and its number belongs to something else since.
TEST_F(TrainerMemory, IsNoOtherDescriptor) {
  test::TemporaryFolder folder;
  const std::string file = folder.write("data.sqlite", "precious");
  const std::string alike = folder.write("memfd:paddlectl-trainer", "precious");
  int pipe[2];
  ASSERT_EQ(::pipe(pipe), 0);
  const int others[] = {::open(file.c_str(), O_RDWR), ::open(alike.c_str(), O_RDWR),
                        ::memfd_create("paddlectl", MFD_ALLOW_SEALING), pipe[1]};
  for (const int fd : others) {
    EXPECT_EQ(taken(fd), -1);
    EXPECT_EQ(::fcntl(fd, F_GETFD), 0) << "it is left as it was";
    ::close(fd);
    EXPECT_EQ(taken(fd), -1) << "a number without a descriptor";
  }
  ::close(pipe[0]);
  EXPECT_EQ(taken(-1), -1);
  ::unsetenv("PADDLECTL_MEMORY_FD");
  EXPECT_FALSE(take_trainer_memory());
}

}  // namespace paddle::commands
