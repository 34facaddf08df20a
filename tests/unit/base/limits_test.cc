#include "base/limits.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <system_error>
#include <thread>

#include <gtest/gtest.h>

#include "base/fd.h"
#include "tests/support/temporary_folder.h"

namespace paddle {
namespace {

constexpr int kResourceCode = static_cast<int>(Errc::kResource);

void limit(decltype(RLIMIT_NOFILE) which, rlim_t value) {
  const rlimit both{value, value};
  ::setrlimit(which, &both);
}

// So that limits bind: root may raise them.
void be_nobody() {
  if (::geteuid() == 0 && ::seteuid(65534) != 0) std::abort();
}

class LimitsDeathTest : public testing::Test {
 protected:
  LimitsDeathTest() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
  static void prepare() {
    if (!prepare_limits("paddlectl")) ::_exit(99);
  }
};

TEST_F(LimitsDeathTest, AThreadOrMemoryThatIsRefusedEndsTheProgramByName) {
  const auto refused = testing::ExitedWithCode(kResourceCode);
  const auto in_thread = [](auto thrown) { std::thread([thrown] { throw thrown; }).join(); };
  EXPECT_EXIT((prepare(), in_thread(std::system_error(EAGAIN, std::generic_category()))), refused,
              "paddlectl: the system cannot start a thread");
  EXPECT_EXIT((prepare(), in_thread(std::bad_alloc())), refused, "paddlectl: out of memory");
  EXPECT_EXIT((prepare(), in_thread(std::system_error(ENOMEM, std::generic_category()))), refused,
              "hint: see `ulimit -v`");
  EXPECT_EXIT((prepare(), in_thread(std::system_error(EMFILE, std::generic_category(), "epoll"))),
              refused, "paddlectl: epoll: Too many open files\nhint: allow more open descriptors");
  EXPECT_EXIT((prepare(), in_thread(std::runtime_error("epoll: Too many open files in system"))),
              refused, "hint: allow more on that machine");
  EXPECT_EXIT((prepare(), in_thread(std::system_error(EINVAL, std::generic_category()))),
              testing::KilledBySignal(SIGABRT), "Invalid argument")
      << "a bug";
}

// A thread that is refused ends those that run before it, while they are awaited by nobody.
TEST_F(LimitsDeathTest, ARefusedThreadBesideOthersIsNamedToo) {
  const auto start_some = [] {
    std::thread one([] { ::pause(); });
    throw std::system_error(EAGAIN, std::generic_category());
  };
  EXPECT_EXIT((prepare(), start_some()), testing::ExitedWithCode(kResourceCode),
              "paddlectl: the system cannot start a thread");
}

TEST_F(LimitsDeathTest, AFileThatMayNotGrowIsAnErrorOfTheWrite) {
  const test::TemporaryFolder folder;
  const auto write = [&] {
    prepare();
    limit(RLIMIT_FSIZE, 1000);
    const UniqueFd file(::open((folder / "file").c_str(), O_WRONLY | O_CREAT, 0600));
    const Bytes bytes(4096);
    const Status written = write_all(file.get(), bytes, TimePoint::max());
    std::fprintf(stderr, "%s", written ? "written" : written.error().message.c_str());
    ::_exit(written ? 0 : static_cast<int>(written.error().code));
  };
  EXPECT_EXIT(write(), testing::ExitedWithCode(kResourceCode), "write: File too large");
}

TEST_F(LimitsDeathTest, AStackThatIsTooSmallIsRaisedOrNamed) {
  const auto prepare_small = [](rlim_t hard) {
    be_nobody();
    const rlimit small{64U << 10U, hard};
    ::setrlimit(RLIMIT_STACK, &small);
    const Status prepared = prepare_limits("paddlectl");
    std::fprintf(stderr, "%s", prepared ? "raised" : prepared.error().message.c_str());
    ::_exit(prepared ? 0 : static_cast<int>(prepared.error().code));
  };
  EXPECT_EXIT(prepare_small(64U << 10U), testing::ExitedWithCode(kResourceCode),
              "the stack is limited to 64 kB, but 512 kB are needed");
  EXPECT_EXIT(prepare_small(4U << 20U), testing::ExitedWithCode(0), "raised");
}

TEST_F(LimitsDeathTest, ThreadsHaveAStackWhateverTheLimitAtTheStart) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizer chooses the stacks of threads itself";
#endif
  const auto use_much = [] {
    pthread_attr_t attributes;
    ::pthread_attr_init(&attributes);
    ::pthread_attr_setstacksize(&attributes, 64U << 10U);
    ::pthread_setattr_default_np(&attributes);
    prepare();
    std::thread([] {
      volatile char large[512U << 10U];
      for (std::size_t i = 0; i < sizeof large; i += 1024) large[i] = 1;
    }).join();
    ::_exit(0);
  };
  EXPECT_EXIT(use_much(), testing::ExitedWithCode(0), "");
}

TEST_F(LimitsDeathTest, DescriptorsAreRaisedOrNamedWithWhatNeedsThem) {
  const auto need = [] {
    be_nobody();
    limit(RLIMIT_NOFILE, 30);
    prepare();
    const Status few = need_descriptors(4, "4 connections");
    const Status many = need_descriptors(40, "40 connections of trainers");
    std::fprintf(stderr, "%s", many ? "none" : many.error().message.c_str());
    ::_exit(few && !many ? static_cast<int>(many.error().code) : 98);
  };
  EXPECT_EXIT(need(), testing::ExitedWithCode(kResourceCode),
              "40 connections of trainers: Too many open files: 40 more are needed, [0-9]+ can be");
}

TEST(Lack, IsAResourceWhateverWasTried) {
  for (const int reason : {ENOSPC, EDQUOT, EFBIG, EROFS, ENOMEM, EMFILE, ENFILE}) {
    for (const Errc code : {Errc::kData, Errc::kAuth, Errc::kUnreachable, Errc::kFailed}) {
      errno = reason;
      EXPECT_EQ(system_error(code, "write").code, Errc::kResource) << reason;
    }
  }
  for (const int reason : {ENOENT, EACCES, ECONNRESET, EIO}) {
    errno = reason;
    EXPECT_EQ(system_error(Errc::kData, "read").code, Errc::kData) << reason;
  }
}

TEST(Lack, WhatAUserMayNotDoIsNotToBeTriedAgain) {
  errno = EACCES;
  EXPECT_NE(system_error(Errc::kData, "read").hint.find("permissions"), std::string::npos);
  errno = EACCES;
  EXPECT_EQ(system_error(Errc::kUnreachable, "connect").hint, "") << "a firewall";
  errno = EIO;
  EXPECT_EQ(system_error(Errc::kData, "read").hint, "");
}

TEST(Lack, HasAHintThatNamesTheLimitWhoseverWordsTellIt) {
  const auto names = [](const char* message, const char* limit) {
    EXPECT_NE(hint_for_lack(message).find(limit), std::string::npos) << message;
  };
  names("write: File too large", "ulimit -f");
  names("the agent is incomplete (File size limit exceeded)", "ulimit -f");
  names("pipe: Too many open files", "ulimit -n");
  names("closed by peer (/bin/sh: 1: Cannot fork)", "ulimit -u");
  names("start /bin/sh: Resource temporarily unavailable", "pids.max");
  names("mmap: Cannot allocate memory", "ulimit -v");
  names("write: No space left on device", "df -i");
  EXPECT_EQ(hint_for_lack("open x: No such file or directory"), "");
}

}  // namespace
}  // namespace paddle
