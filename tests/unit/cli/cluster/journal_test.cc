#include "cli/cluster/journal.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <thread>

#include <gtest/gtest.h>

#include "base/fd.h"
#include "tests/support/temporary_folder.h"

namespace paddle::cli {
namespace {

namespace fs = std::filesystem;

class JournalTest : public ::testing::Test {
 protected:
  void add(const std::string& job, const std::string& text, int exit_code = 0) {
    remote::NodeSpec node;
    node.name = "n-1";
    node.root = "/home/u/paddlectl/lab";
    journal_.add(node, {job, text, exit_code});
  }
  std::string path(const std::string& name) const { return folder_ / "state/paddlectl/" + name; }
  std::vector<std::string> lines(const std::string& name) const {
    std::istringstream text(test::TemporaryFolder::read(path(name)));
    std::vector<std::string> all;
    for (std::string line; std::getline(text, line);) all.push_back(line);
    return all;
  }
  static void expect_has(const std::string& line, const std::string& text) {
    EXPECT_NE(line.find(text), std::string::npos) << line << "\nlacks " << text;
  }

  test::TemporaryFolder folder_;
  std::vector<Error> complaints_;
  Journal journal_{folder_ / "state/paddlectl",
                   [this](const Error& error) { complaints_.push_back(error); }};
};

TEST_F(JournalTest, EachActionOnANodeIsALineOfWhoNodeActionAndExit) {
  add("first", "start trainer-0");
  add("first", "end all", 3);
  const auto all = lines("jobs/first.jsonl");
  ASSERT_EQ(all.size(), 2U);
  char machine[256] = "";
  ::gethostname(machine, sizeof machine - 1);
  for (const std::string& line : all) {
    expect_has(line, "\"time\": \"20");
    expect_has(line, std::string("@") + machine + "\"");
    expect_has(line, "\"pid\": " + std::to_string(::getpid()));
    expect_has(line, "\"node\": \"n-1\", \"folder\": \"/home/u/paddlectl/lab\"");
  }
  expect_has(all[0], "\"action\": \"start trainer-0\", \"exit\": 0");
  expect_has(all[1], "\"action\": \"end all\", \"exit\": 3");
}

TEST_F(JournalTest, ANameWithControlCharactersStaysOnOneLine) {
  add("", "run mysql\n\x1b[2J");
  const auto all = lines("nodes.jsonl");
  ASSERT_EQ(all.size(), 1U);
  expect_has(all[0], "run mysql");
  EXPECT_EQ(all[0].find('\x1b'), std::string::npos);
}

TEST_F(JournalTest, IsPrivateAndOutlivesTheJob) {
  add("first", "end all");
  struct stat info {};
  ASSERT_EQ(::stat(path("jobs/first.jsonl").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777U, 0600U);
  ASSERT_EQ(::stat(path("jobs").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777U, 0700U);
  add("first", "remove jobs/first");
  const auto all = lines("jobs/first.jsonl");
  ASSERT_EQ(all.size(), 2U);
  expect_has(all.back(), "remove jobs/first\"");
}

TEST_F(JournalTest, ANodeCannotNameAFileElsewhere) {
  add("../../../elsewhere", "end all");
  EXPECT_FALSE(fs::exists(folder_ / "elsewhere.jsonl"));
  ASSERT_EQ(lines("nodes.jsonl").size(), 1U);
}

TEST_F(JournalTest, ANameThatIsNoFileNameLosesNoLine) {
  for (const std::string& job : {std::string(241, 'j'), std::string(5000, 'j'),
                                 std::string("a\0b", 3), std::string("."), std::string("a/b")})
    add(job, "end all");
  EXPECT_EQ(lines("nodes.jsonl").size(), 5U);
  const std::string longest(240, 'j');
  add(longest, "end all");
  EXPECT_EQ(lines("jobs/" + longest + ".jsonl").size(), 1U);
  EXPECT_TRUE(complaints_.empty());
}

TEST_F(JournalTest, APipeInItsPlaceIsNeverWaitedForNorWrittenTo) {
  fs::create_directories(path("jobs"));
  const std::string pipe = path("jobs/first.jsonl");
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  add("first", "end all");  // the pipe has no reader
  const UniqueFd reader(::open(pipe.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  add("first", "end all");
  char byte = 0;
  EXPECT_EQ(::read(reader.get(), &byte, 1), 0) << "nothing was written";
  ASSERT_EQ(complaints_.size(), 1U);
  expect_has(complaints_[0].message, pipe);
}

TEST_F(JournalTest, LinesOfManyThreadsDoNotMix) {
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 8; ++thread) {
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) add("first", std::string(200, 'x'));
    });
  }
  for (std::thread& thread : threads) thread.join();
  const auto all = lines("jobs/first.jsonl");
  ASSERT_EQ(all.size(), 400U);
  for (const std::string& line : all) {
    EXPECT_TRUE(line.starts_with("{") && line.ends_with("\"exit\": 0}")) << line;
  }
}

TEST_F(JournalTest, OneThatCannotBeWrittenIsSaidOnceAndStopsNothing) {
  folder_.write("state/paddlectl", "a file in the way");
  add("first", "end all");
  add("first", "end all");
  ASSERT_EQ(complaints_.size(), 1U);
  expect_has(complaints_[0].message, path("jobs"));
  // A link in its place is not followed.
  fs::remove(folder_ / "state/paddlectl");
  fs::create_directories(path("jobs"));
  fs::create_symlink(folder_ / "elsewhere", path("jobs/first.jsonl"));
  add("first", "end all");
  EXPECT_FALSE(fs::exists(folder_ / "elsewhere"));
}

using JournalDeathTest = JournalTest;

TEST_F(JournalDeathTest, AFileThatMayNotGrowIsSaidAsThat) {
  folder_.write("state/paddlectl/jobs/first.jsonl", std::string(950, '\n'));
  const auto add_beyond_limit = [this] {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit small{1000, 1000};  // a part of the line fits
    ::setrlimit(RLIMIT_FSIZE, &small);
    add("first", "end all");
    for (const Error& error : complaints_) std::fprintf(stderr, "%s\n", error.message.c_str());
    ::_exit(0);
  };
  EXPECT_EXIT(add_beyond_limit(), testing::ExitedWithCode(0),
              "write .*first.jsonl: File too large");
}

}  // namespace
}  // namespace paddle::cli
