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
#include "tests/support/fake_agent_client.h"
#include "tests/support/temporary_folder.h"

namespace paddle::cli {
namespace {

namespace fs = std::filesystem;

class JournalTest : public ::testing::Test {
 protected:
  std::unique_ptr<remote::AgentClient> client(const std::string& node = "n-1") {
    remote::NodeSpec spec;
    spec.name = node;
    spec.root = "/home/u/paddlectl/lab";
    return with_journal(std::make_unique<remote::FakeAgentClient>(spec, fake_), journal_);
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
  remote::FakeNode fake_;
  std::vector<Error> complaints_;
  Journal journal_{folder_ / "state/paddlectl",
                   [this](const Error& error) { complaints_.push_back(error); }};
};

TEST_F(JournalTest, EachActionOnANodeIsALineOfWhoNodeActionAndExit) {
  const auto one = client();
  remote::ProcessSpec process;
  process.job = "first";
  process.name = "trainer-0";
  process.arguments = {"paddle", "--password=hunter2"};
  process.environment["TOKEN"] = "hunter2";
  ASSERT_TRUE(one->claim_job({"first", {}}));
  ASSERT_TRUE(one->start(process));
  ASSERT_TRUE(one->ask_to_stop("first", {"trainer-0"}));
  ASSERT_TRUE(one->stop("first", {}, {}));
  fake_.breaks_at_stop = true;
  EXPECT_FALSE(one->stop("first", {"trainer-0"}, {}));
  const auto all = lines("jobs/first.jsonl");
  ASSERT_EQ(all.size(), 4U);
  char machine[256] = "";
  ::gethostname(machine, sizeof machine - 1);
  for (const std::string& line : all) {
    expect_has(line, "\"time\": \"20");
    expect_has(line, std::string("@") + machine + "\"");
    expect_has(line, "\"pid\": " + std::to_string(::getpid()));
    expect_has(line, "\"node\": \"n-1\", \"folder\": \"/home/u/paddlectl/lab\"");
    EXPECT_EQ(line.find("hunter2"), std::string::npos) << "a secret: " << line;
  }
  expect_has(all[0], "\"action\": \"start trainer-0\", \"exit\": 0");
  expect_has(all[1], "\"action\": \"ask to stop trainer-0\", \"exit\": 0");
  expect_has(all[2], "\"action\": \"end all\", \"exit\": 0");
  expect_has(all[3], "\"action\": \"end trainer-0\"");
  EXPECT_EQ(all[3].find("\"exit\": 0"), std::string::npos) << all[3];
}

TEST_F(JournalTest, ACommandIsThereWithItsExitCodeAndWithoutItsArguments) {
  fake_.on_run = [](const remote::CommandSpec&, const remote::CommandOutput&) {
    return Result<remote::CommandEnd>(remote::CommandEnd{3, 0, false});
  };
  ASSERT_TRUE(client()->run({{"mysql\n\x1b[2J", "-phunter2"}, {}}, nullptr, nullptr));
  const auto all = lines("nodes.jsonl");
  ASSERT_EQ(all.size(), 1U) << "one line, whatever the name holds";
  expect_has(all[0], "run mysql");
  expect_has(all[0], "\"exit\": 3");
  EXPECT_EQ(all[0].find('\x1b'), std::string::npos);
  EXPECT_EQ(all[0].find("hunter2"), std::string::npos);
}

TEST_F(JournalTest, APushIsThereUnderTheJobWhoseFilesItBrings) {
  const std::string file = folder_.write("here", "content");
  remote::PushSource source;
  const auto push = [&](const std::string& remote_path, const std::string& keep_only) {
    ASSERT_TRUE(client()->push({{file, remote_path, false}}, source, nullptr, keep_only));
  };
  push("jobs/first/settings.jsonl", "");
  push("bin/paddle-0123456789abcdef", "jobs/first/workspace");
  push("bin/paddle-0123456789abcdef", "");
  push(".paddlectl-copies/1-2/1", "");
  ASSERT_EQ(lines("jobs/first.jsonl").size(), 2U);
  ASSERT_EQ(lines("nodes.jsonl").size(), 2U);
  for (const char* const name : {"jobs/first.jsonl", "nodes.jsonl"}) {
    for (const std::string& line : lines(name)) expect_has(line, "push 1 files\", \"exit\": 0");
  }
}

TEST_F(JournalTest, IsPrivateAndOutlivesTheJob) {
  const auto one = client();
  ASSERT_TRUE(one->stop("first", {}, {}));
  struct stat info {};
  ASSERT_EQ(::stat(path("jobs/first.jsonl").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777U, 0600U);
  ASSERT_EQ(::stat(path("jobs").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777U, 0700U);
  ASSERT_TRUE(one->remove("jobs/first"));
  const auto all = lines("jobs/first.jsonl");
  ASSERT_EQ(all.size(), 2U);
  expect_has(all.back(), "remove jobs/first\"");
}

TEST_F(JournalTest, ANodeCannotNameAFileElsewhere) {
  ASSERT_TRUE(client()->stop("../../../elsewhere", {}, {}));
  EXPECT_FALSE(fs::exists(folder_ / "elsewhere.jsonl"));
  ASSERT_EQ(lines("nodes.jsonl").size(), 1U);
}

TEST_F(JournalTest, ANameThatIsNoFileNameLosesNoLine) {
  for (const std::string& job : {std::string(241, 'j'), std::string(5000, 'j'),
                                 std::string("a\0b", 3), std::string("."), std::string("a/b")}) {
    ASSERT_TRUE(client()->stop(job, {}, {}));
  }
  EXPECT_EQ(lines("nodes.jsonl").size(), 5U);
  const std::string longest(240, 'j');
  ASSERT_TRUE(client()->stop(longest, {}, {}));
  EXPECT_EQ(lines("jobs/" + longest + ".jsonl").size(), 1U);
  EXPECT_TRUE(complaints_.empty());
}

TEST_F(JournalTest, APipeInItsPlaceIsNeverWaitedForNorWrittenTo) {
  fs::create_directories(path("jobs"));
  const std::string pipe = path("jobs/first.jsonl");
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_TRUE(client()->stop("first", {}, {})) << "nobody reads it";
  const UniqueFd reader(::open(pipe.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  EXPECT_TRUE(client()->stop("first", {}, {}));
  char byte = 0;
  EXPECT_EQ(::read(reader.get(), &byte, 1), 0) << "nothing was written";
  ASSERT_EQ(complaints_.size(), 1U);
  expect_has(complaints_[0].message, pipe);
}

TEST_F(JournalTest, LinesOfManyThreadsDoNotMix) {
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 8; ++thread) {
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i)
        journal_.add("first", remote::NodeSpec(), std::string(200, 'x'), 0);
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
  const auto one = client();
  EXPECT_TRUE(one->stop("first", {}, {}));
  EXPECT_TRUE(one->stop("first", {}, {}));
  ASSERT_EQ(complaints_.size(), 1U);
  expect_has(complaints_[0].message, path("jobs"));
  // A link in its place is not followed.
  fs::remove(folder_ / "state/paddlectl");
  fs::create_directories(path("jobs"));
  fs::create_symlink(folder_ / "elsewhere", path("jobs/first.jsonl"));
  EXPECT_TRUE(one->stop("first", {}, {}));
  EXPECT_FALSE(fs::exists(folder_ / "elsewhere"));
}

using JournalDeathTest = JournalTest;

TEST_F(JournalDeathTest, AFileThatMayNotGrowIsSaidAsThat) {
  folder_.write("state/paddlectl/jobs/first.jsonl", std::string(950, '\n'));
  const auto add = [this] {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit small{1000, 1000};  // a part of the line fits
    ::setrlimit(RLIMIT_FSIZE, &small);
    (void)client()->stop("first", {}, {});
    for (const Error& error : complaints_) std::fprintf(stderr, "%s\n", error.message.c_str());
    ::_exit(0);
  };
  EXPECT_EXIT(add(), testing::ExitedWithCode(0), "write .*first.jsonl: File too large");
}

}  // namespace
}  // namespace paddle::cli
