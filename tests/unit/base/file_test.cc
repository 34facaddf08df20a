// Secrets in files, files replaced whole, and reads and writes with deadlines.
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/fd.h"
#include "base/secret.h"
#include "tests/support/temporary_folder.h"

namespace paddle {
namespace {

class FileTest : public testing::Test {
 protected:
  test::TemporaryFolder folder_;
  const std::string& path_ = folder_.path();
};

TEST_F(FileTest, ASecretIsReadOnlyFromAPrivateRegularFile) {
  const std::string key = path_ + "/key";
  const auto secret = Secret::generate();
  ASSERT_TRUE(secret);
  ASSERT_TRUE(replace_file(key, secret->reveal(), 0600));
  const auto read = read_secret_file(key, kSecretBytes);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_TRUE(equal_constant_time(*read, secret->reveal()));
  for (const mode_t mode : {0640U, 0604U, 0620U, 0601U}) {
    ASSERT_EQ(::chmod(key.c_str(), mode), 0);
    const auto refused = read_secret_file(key, kSecretBytes);
    ASSERT_FALSE(refused) << mode;
    EXPECT_EQ(refused.error().code, Errc::kAuth);
    EXPECT_EQ(refused.error().hint, "chmod 600 " + key);
  }
  ASSERT_EQ(::chmod(key.c_str(), 0600), 0);
  ASSERT_EQ(::symlink("key", (path_ + "/link").c_str()), 0);
  EXPECT_FALSE(read_secret_file(path_ + "/link", kSecretBytes));
  const auto longer = read_secret_file(key, kSecretBytes - 1);
  ASSERT_FALSE(longer);
  EXPECT_EQ(longer.error().code, Errc::kAuth);
  EXPECT_EQ(longer.error().message, "secret file " + key + " is longer than 31 bytes");
  EXPECT_FALSE(read_secret_file(path_ + "/missing", kSecretBytes));
  ASSERT_EQ(::mkfifo((path_ + "/pipe").c_str(), 0600), 0);
  EXPECT_FALSE(read_secret_file(path_ + "/pipe", kSecretBytes)) << "and it returned at all";
}

TEST(Cores, AreTurnedOffAndGivenBackAsTheyWere) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_CORE, &before), 0);
  rlimit now{};
  restore_cores();
  ASSERT_EQ(::getrlimit(RLIMIT_CORE, &now), 0);
  EXPECT_EQ(now.rlim_cur, before.rlim_cur) << "they were never turned off";
  turn_off_cores();
  turn_off_cores();  // keeps the limit from before the first
  ASSERT_EQ(::getrlimit(RLIMIT_CORE, &now), 0);
  EXPECT_LE(now.rlim_cur, 1U);
  EXPECT_EQ(now.rlim_max, before.rlim_max);
  restore_cores();
  ASSERT_EQ(::getrlimit(RLIMIT_CORE, &now), 0);
  EXPECT_EQ(now.rlim_cur, before.rlim_cur);
}

TEST_F(FileTest, OnlyAPlainFileIsReadAndAPipeNeverWaitedFor) {
  const std::string pipe = path_ + "/pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  for (const std::string& path : {pipe, path_, std::string("/dev/zero")}) {
    const auto refused = read_file(path);
    ASSERT_FALSE(refused) << path;
    EXPECT_EQ(refused.error().code, Errc::kData);
    EXPECT_EQ(refused.error().message, path + ": not a regular file");
  }
  EXPECT_EQ(*read_file("/dev/null"), "");
  // A pipe that the user names is read to its end.
  std::thread writer([&] { std::ofstream(pipe) << "node-1"; });
  const auto read = read_file_or_pipe(pipe, 100);
  writer.join();
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(*read, "node-1");
}

TEST_F(FileTest, SecretsDifferAndHaveTheirSize) {
  EXPECT_FALSE(equal_constant_time(Secret::generate()->reveal(), Secret::generate()->reveal()));
  EXPECT_FALSE(Secret::from_bytes(as_bytes("31 bytes are one byte too short")));
  EXPECT_FALSE(equal_constant_time(as_bytes("abc"), as_bytes("abcd")));
  EXPECT_FALSE(equal_constant_time(as_bytes("abc"), as_bytes("abd")));
  EXPECT_TRUE(equal_constant_time(as_bytes("abc"), as_bytes("abc")));
}

TEST_F(FileTest, ReplaceFileGivesTheNewContentAndModeAndLeavesNothingElse) {
  const std::string file = path_ + "/state";
  ASSERT_TRUE(replace_file(file, as_bytes("old and longer"), 0600));
  ASSERT_TRUE(replace_file(file, as_bytes("new"), 0600));
  EXPECT_EQ(*read_file(file), "new");
  struct stat info {};
  ASSERT_EQ(::stat(file.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777U, 0600U);
  const auto entries = std::filesystem::directory_iterator(path_);
  EXPECT_EQ(std::distance(begin(entries), end(entries)), 1);
}

TEST_F(FileTest, ReplaceFileKeepsTheOldContentWhenItCannotWrite) {
  const std::string file = path_ + "/" + std::string(254, 'x');  // its temporary has a longer name
  std::ofstream(file) << "old";
  const auto failed = replace_file(file, as_bytes("new"), 0600);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, Errc::kResource);
  EXPECT_EQ(*read_file(file), "old");
  EXPECT_FALSE(replace_file(path_ + "/no/such/folder", as_bytes("x")));
}

TEST_F(FileTest, ReplaceFileLeavesNoTemporaryFileWhenItFails) {
  ASSERT_TRUE(std::filesystem::create_directory(path_ + "/folder"));  // nothing replaces a folder
  EXPECT_FALSE(replace_file(path_ + "/folder", as_bytes("new")));
  const auto entries = std::filesystem::directory_iterator(path_);
  EXPECT_EQ(std::distance(begin(entries), end(entries)), 1);
}

TEST_F(FileTest, ReplaceFileLeavesTheTemporaryOfAnotherProcessAlone) {
  const std::string file = path_ + "/state";
  const std::string others[] = {file + ".tmp", fmt::format("{}.{}-0.tmp", file, ::getpid())};
  for (const std::string& other : others) {
    std::ofstream(other) << "half of a fi";
    ASSERT_EQ(::chmod(other.c_str(), 0644), 0);
  }
  ASSERT_TRUE(replace_file(file, as_bytes("new"), 0600));
  EXPECT_EQ(*read_file(file), "new");
  struct stat info {};
  ASSERT_EQ(::stat(file.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777U, 0600U);
  for (const std::string& other : others) EXPECT_EQ(*read_file(other), "half of a fi") << other;
}

TEST_F(FileTest, ReplaceFileMayBeCalledByManyAtATime) {
  const std::string file = path_ + "/state";
  std::vector<std::thread> writers;
  for (std::size_t writer = 1; writer <= 4; ++writer) {
    writers.emplace_back([&, text = std::string(writer * 1000, 'x')] {
      for (int i = 0; i < 50; ++i) {
        const Status replaced = replace_file(file, as_bytes(text));
        EXPECT_TRUE(replaced) << replaced.error().message;
        EXPECT_EQ(read_file(file)->size() % 1000, 0U);
      }
    });
  }
  for (std::thread& writer : writers) writer.join();
  const auto entries = std::filesystem::directory_iterator(path_);
  EXPECT_EQ(std::distance(begin(entries), end(entries)), 1);
}

TEST_F(FileTest, ReadFileRefusesMoreThanItsLimit) {
  const std::string file = path_ + "/big";
  ASSERT_TRUE(replace_file(file, as_bytes("12345")));
  EXPECT_EQ(*read_file(file, 5), "12345");
  EXPECT_FALSE(read_file(file, 4));
  EXPECT_FALSE(read_file(path_ + "/missing"));
}

TEST(Fd, ReadExactTellsEndOfFileFromADeadline) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const UniqueFd out(ends[0]);
  UniqueFd in(ends[1]);
  std::array<std::byte, 4> buffer;
  const auto late = read_exact(out.get(), buffer, SteadyClock().now());
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().message, "deadline passed");
  ASSERT_TRUE(write_all(in.get(), as_bytes("abcdef"), TimePoint::max()));
  ASSERT_TRUE(read_exact(out.get(), buffer, TimePoint::max()));
  EXPECT_EQ(as_text(buffer), "abcd");
  in.reset();
  const auto end = read_exact(out.get(), buffer, TimePoint::max());
  ASSERT_FALSE(end);
  EXPECT_EQ(end.error().code, Errc::kUnreachable);
  EXPECT_EQ(end.error().message, "closed by peer");
}

TEST(Fd, UniqueFdClosesOnceAndMoves) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  UniqueFd first(ends[0]);
  const UniqueFd other(ends[1]);
  UniqueFd second(std::move(first));
  EXPECT_FALSE(first);  // NOLINT(bugprone-use-after-move): the moved-from state is the contract
  EXPECT_EQ(second.get(), ends[0]);
  second.reset();
  EXPECT_EQ(::fcntl(ends[0], F_GETFD), -1);
}

}  // namespace
}  // namespace paddle
