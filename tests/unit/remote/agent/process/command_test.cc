// Commands of `paddlectl exec` and the copies of `put` and `get`, on a real agent.
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <thread>

#include "tests/unit/remote/agent_fixture.h"

namespace paddle::remote {
namespace {

namespace fs = std::filesystem;

struct Ran {
  std::string out, error;
  CommandEnd end;
};

Ran run(AgentClient& agent, const std::vector<std::string>& arguments, Duration timeout = {}) {
  Ran ran;
  const auto end = agent.run(
      {arguments, timeout},
      [&](std::string_view text, bool is_stderr) { (is_stderr ? ran.error : ran.out) += text; },
      nullptr);
  EXPECT_TRUE(end) << end.error().message;
  if (end) ran.end = *end;
  return ran;
}

TEST_F(AgentTest, CommandGetsItsArgumentsAsTheyAreAndTellsItsExitCode) {
  auto agent = connect_agent();
  const Ran ran = run(*agent, {"/bin/sh", "-c", "echo \"$1\"; echo bad >&2; cat; exit 7", "sh",
                               "$(echo no); 'x' \xff\n*"});
  EXPECT_EQ(ran.out, "$(echo no); 'x' \xff\n*\n");
  EXPECT_EQ(ran.error, "bad\n");
  EXPECT_EQ(ran.end.exit_code, 7);
  EXPECT_EQ(run(*agent, {"/bin/sh", "-c", "kill -TERM $$"}).end.signal, SIGTERM);
  const Ran none = run(*agent, {"no-such-program-here"});
  EXPECT_EQ(none.end.exit_code, 127);
  EXPECT_NE(none.error.find("no-such-program-here"), std::string::npos);
  EXPECT_FALSE(agent->run(
      {{}, {}}, [](std::string_view, bool) {}, nullptr));
  EXPECT_TRUE(agent->facts());  // the channel serves on
}

TEST_F(AgentTest, CommandMayWriteMuchMoreThanAPipeHolds) {
  auto agent = connect_agent();
  const Ran ran = run(*agent, {"/bin/sh", "-c", "head -c 5000000 /dev/zero; echo end >&2"});
  EXPECT_EQ(ran.out.size(), 5'000'000U);
  EXPECT_EQ(ran.error, "end\n");
}

TEST_F(AgentTest, CommandsBackgroundChildDoesNotHoldItsEnd) {
  auto agent = connect_agent();
  const std::string file = folder_ + "/pid";
  const Ran ran = run(*agent, {"/bin/sh", "-c", "sleep 1000 & echo $! > " + file + "; echo done"});
  EXPECT_EQ(ran.out, "done\n");
  ::kill(std::stoi(file_content(file)), SIGKILL);
}

TEST_F(AgentTest, CommandEndsWithAllItStartedWhenItsTimeIsUp) {
  auto agent = connect_agent();
  const std::string mark = folder_ + "/mark";
  fs::create_directory(mark);
  const Ran ran =
      run(*agent, {"/bin/sh", "-c", "cd " + mark + "; trap '' TERM; sleep 1000 & sleep 1000"},
          std::chrono::milliseconds(300));
  EXPECT_TRUE(ran.end.timed_out);
  EXPECT_EQ(processes_using(mark), std::vector<int>{});
}

TEST_F(AgentTest, InterruptedCommandEndsAndTheChannelServesOn) {
  auto agent = connect_agent();
  const std::string mark = folder_ + "/mark";
  fs::create_directory(mark);
  bool started = false;
  const auto end = agent->run(
      {{"/bin/sh", "-c", "cd " + mark + "; echo up; exec sleep 1000"}, {}},
      [&](std::string_view, bool) { started = true; }, [&] { return started; });
  ASSERT_TRUE(end) << end.error().message;
  EXPECT_EQ(end->signal, SIGTERM);
  EXPECT_EQ(processes_using(mark), std::vector<int>{});
  EXPECT_EQ(run(*agent, {"echo", "again"}).out, "again\n");
}

TEST_F(AgentTest, CommandEndsWithItsChannel) {
  const std::string mark = folder_ + "/mark";
  fs::create_directory(mark);
  // The process that holds the channel dies in the middle of the command.
  const pid_t child = ::fork();
  if (child == 0) {
    auto agent = connect(node_, options_);
    if (!agent) ::_exit(1);
    (void)(*agent)->run(
        {{"/bin/sh", "-c", "cd " + mark + "; echo up; exec sleep 1000"}, {}},
        [](std::string_view, bool) { ::_exit(0); }, nullptr);
    ::_exit(1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  const auto patience = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!processes_using(mark).empty() && std::chrono::steady_clock::now() < patience)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(processes_using(mark), std::vector<int>{});
}

TEST_F(AgentTest, PutReplacesFilesOutsideWholeAndWritable) {
  auto agent = connect_agent();
  const std::string outside = folder_ + "/outside";
  const std::string local = write_file(folder_ + "/local", "new");
  ASSERT_TRUE(
      push(*agent, {{local, ".paddlectl-copies/1/a"}, {local, ".paddlectl-copies/1/d/b", true}}));
  fs::create_directory(outside);
  write_file(outside + "/a", "old");
  const auto copied = agent->export_to(".paddlectl-copies/1", outside);
  ASSERT_TRUE(copied) << copied.error().message;
  EXPECT_EQ(copied->files, 2U);
  EXPECT_EQ(copied->bytes, 6U);
  EXPECT_EQ(file_content(outside + "/a"), "new");
  EXPECT_EQ(file_content(outside + "/d/b"), "new");
  EXPECT_NE(fs::status(outside + "/a").permissions() & fs::perms::owner_write, fs::perms::none);
  EXPECT_NE(fs::status(outside + "/d/b").permissions() & fs::perms::owner_exec, fs::perms::none);
  const auto entries = fs::directory_iterator(outside);
  EXPECT_EQ(std::distance(fs::begin(entries), fs::end(entries)), 2);  // no draft is left
}

TEST_F(AgentTest, PutOfOneFileTakesTheNameGiven) {
  auto agent = connect_agent();
  const std::string local = write_file(folder_ + "/local", "x");
  ASSERT_TRUE(push(*agent, {{local, ".paddlectl-copies/1/a"}}));
  ASSERT_TRUE(agent->export_to(".paddlectl-copies/1", folder_ + "/named"));
  EXPECT_EQ(file_content(folder_ + "/named"), "x");
  ASSERT_TRUE(agent->export_to(".paddlectl-copies/1", folder_ + "/made/"));
  EXPECT_EQ(file_content(folder_ + "/made/a"), "x");
  EXPECT_FALSE(agent->export_to(".paddlectl-copies/../../x", folder_ + "/made/"));
  EXPECT_FALSE(agent->export_to(".paddlectl-copies/1", folder_ + "/named/below"));
}

TEST_F(AgentTest, GetTakesFilesAndFoldersButNoLinkBelow) {
  auto agent = connect_agent();
  const std::string outside = folder_ + "/outside";
  fs::create_directories(outside + "/deep");
  write_file(outside + "/deep/one", "1");
  write_file(outside + "/two", "22");
  fs::create_symlink("/etc/passwd", outside + "/link");
  const auto taken = agent->import_from(outside + "/", ".paddlectl-copies/2");
  ASSERT_TRUE(taken) << taken.error().message;
  EXPECT_EQ(taken->files, 2U);
  const auto listed = agent->list(".paddlectl-copies/2");
  ASSERT_TRUE(listed);
  ASSERT_EQ(listed->size(), 2U);
  EXPECT_EQ((*listed)[0].path, "outside/deep/one");
  EXPECT_EQ((*listed)[1].size, 2U);
  EXPECT_FALSE(agent->import_from(folder_ + "/absent", ".paddlectl-copies/3"));
  EXPECT_FALSE(agent->import_from("", ".paddlectl-copies/3"));
  ASSERT_TRUE(agent->remove(".paddlectl-copies/2"));
  EXPECT_EQ(file_content(outside + "/two"), "22");
}

}  // namespace
}  // namespace paddle::remote
