// The command launcher with stand-ins for podman, sudo and their kind, then with a real agent.
#include <sys/stat.h>

#include <filesystem>
#include <thread>

#include "remote/launcher/launcher.h"
#include "tests/unit/remote/client/agent_fixture.h"

namespace paddle::remote {
namespace {

TimePoint within(Duration left) {
  return SteadyClock().now() + left;
}

bool contains(const std::string& text, const std::string& word) {
  return text.find(word) != std::string::npos;
}

class CommandLauncherTest : public AgentTest {
 protected:
  // A program that the launcher starts with these arguments and "/bin/sh" behind them.
  void use_program(const std::string& body) {
    const std::string path = write_file(folder_ + "/program", "#!/bin/sh\n" + body + "\n");
    ::chmod(path.c_str(), 0755);
    use({path});
  }
  void use(const std::vector<std::string>& command) {
    node_.launcher = "command";
    node_.command = command;
  }
  Result<Channel> run(const std::string& line, Duration left = std::chrono::seconds(20)) {
    launcher_ = *make_launcher(node_, within(left), nullptr);
    return launcher_->run(line, within(left));
  }
  // After which the fixture looks for what is left on this machine.
  void TearDown() override { node_.launcher = "local"; }

  std::unique_ptr<Launcher> launcher_;
};

TEST_F(CommandLauncherTest, TheLineReachesTheShellThatTheProgramStarts) {
  use_program("export MARK=\"$1 $2\"; shift 2; exec \"$@\"");
  node_.command.insert(node_.command.end(), std::initializer_list<std::string>{"a b", "$HOME;'"});
  const auto channel = run("echo \"<$MARK>\"");
  ASSERT_TRUE(channel) << channel.error().message;
  const auto line = skip_to_line(channel->fd.get(), "<", within(std::chrono::seconds(20)));
  EXPECT_EQ(line ? *line : line.error().message, "a b $HOME;'>") << "an argv, not a shell's text";
}

TEST_F(CommandLauncherTest, NoiseBeforeTheShellIsSkipped) {
  use_program("echo welcome; printf 'no end of line'; echo warning >&2; exec \"$@\"");
  const auto channel = run("echo answer; cat");
  ASSERT_TRUE(channel) << channel.error().message;
  ASSERT_TRUE(write_all(channel->fd.get(), as_bytes("input\n"), within(std::chrono::seconds(20))));
  const auto answer = skip_to_line(channel->fd.get(), "answer", within(std::chrono::seconds(20)));
  EXPECT_TRUE(answer) << answer.error().message;
  const auto input = skip_to_line(channel->fd.get(), "input", within(std::chrono::seconds(20)));
  EXPECT_TRUE(input) << "what follows the line is the command's: " << input.error().message;
}

TEST_F(CommandLauncherTest, AProgramThatIsMissingIsNamed) {
  use({"no-such-program-of-ours", "exec"});
  const auto channel = run("true");
  ASSERT_FALSE(channel);
  EXPECT_EQ(channel.error().code, Errc::kUnreachable);
  EXPECT_EQ(channel.error().message,
            "here: start no-such-program-of-ours: No such file or directory");
  EXPECT_PRED2(contains, channel.error().hint, "no-such-program-of-ours exec /bin/sh");
}

TEST_F(CommandLauncherTest, AProgramThatEndsIsToldWithItsStatusAndItsLastWords) {
  use_program("echo 'one more line' >&2; echo 'Error: no container named node-1' >&2; exit 125");
  const auto channel = run("true");
  ASSERT_FALSE(channel);
  EXPECT_EQ(channel.error().code, Errc::kUnreachable);
  EXPECT_PRED2(contains, channel.error().message,
               node_.command[0] + " exited with status 125: Error: no container named node-1)");
  EXPECT_PRED2(contains, channel.error().hint, "password");
  use_program("kill -9 $$");
  const auto killed = run("true");
  ASSERT_FALSE(killed);
  EXPECT_PRED2(contains, killed.error().message, "was killed by signal 9");
}

TEST_F(CommandLauncherTest, AProgramThatHangsEndsWithTheDeadlineAndLeavesNothing) {
  use_program("echo 'waiting for the tape' >&2; MARK=" + folder_ + " sleep 600; :");
  const auto channel = run("true", std::chrono::milliseconds(300));
  ASSERT_FALSE(channel);
  EXPECT_EQ(channel.error().code, Errc::kUnreachable);
  EXPECT_PRED2(contains, channel.error().message, "deadline passed");
  EXPECT_PRED2(contains, channel.error().message, "is still running: waiting for the tape");
  // A killed grandchild takes a moment to go.
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (!processes_using(folder_).empty() && std::chrono::steady_clock::now() < until) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_EQ(processes_using(folder_), std::vector<int>{}) << "its children end with it";
}

TEST_F(CommandLauncherTest, AProgramThatPrintsWithoutEndIsGivenUp) {
  use({"yes"});
  const auto channel = run("true");
  ASSERT_FALSE(channel);
  EXPECT_EQ(channel.error().code, Errc::kData) << channel.error().message;
}

TEST_F(CommandLauncherTest, AnAgentIsPushedAndServesOverIt) {
  use_program("exec \"$@\"");
  auto agent = connect(node_, options_);
  ASSERT_TRUE(agent) << agent.error().message;
  const std::string local = write_file(folder_ + "/file", std::string(3'000'000, 'x') + "end");
  const auto pushed = push(**agent, {{local, "copy/file"}});
  ASSERT_TRUE(pushed) << pushed.error().message;
  ASSERT_TRUE(fetch_file(**agent, "copy/file", folder_ + "/back"));
  EXPECT_TRUE(file_content(folder_ + "/back") == file_content(local));
  agent->reset();
  const auto again = connect(node_, options_);
  EXPECT_TRUE(again) << "the agent is there already: " << again.error().message;
}

TEST_F(CommandLauncherTest, AProgramThatDiesInTheMiddleIsToldWithItsStatus) {
  use_program("\"$@\"; echo 'lost the container' >&2; exit 137");
  auto agent = connect(node_, options_);
  ASSERT_TRUE(agent) << agent.error().message;
  ASSERT_TRUE((*agent)->facts());
  for (const int pid : processes_using(node_.root)) ::kill(pid, SIGKILL);
  const auto facts = (*agent)->facts();
  ASSERT_FALSE(facts);
  EXPECT_EQ(facts.error().code, Errc::kUnreachable);
  EXPECT_PRED2(contains, facts.error().message, "lost the agent");
  EXPECT_PRED2(contains, facts.error().message, "exited with status 137: lost the container");
}

TEST_F(CommandLauncherTest, InANamespaceOfItsOwn) {
  const std::vector<std::string> unshare = {"unshare", "--user", "--map-root-user", "--uts"};
  std::string line;
  for (const std::string& word : unshare) line += word + " ";
  use({"env"});
  const auto permitted = run(line + "true && echo permitted; exit");
  ASSERT_TRUE(permitted) << permitted.error().message;
  if (!skip_to_line(permitted->fd.get(), "permitted", within(std::chrono::seconds(20))))
    GTEST_SKIP() << "no user namespaces for us here";
  use(unshare);
  auto agent = connect(node_, options_);
  ASSERT_TRUE(agent) << agent.error().message;
  std::string said;
  const auto ended = (*agent)->run(
      {{"/bin/sh", "-c", "readlink /proc/self/ns/uts"}, {}},
      [&](std::string_view text, bool) { said += text; }, nullptr);
  ASSERT_TRUE(ended) << ended.error().message;
  const std::string ours = std::filesystem::read_symlink("/proc/self/ns/uts");
  EXPECT_TRUE(said.starts_with("uts:[")) << said;
  EXPECT_FALSE(contains(said, ours)) << "it runs in our namespace";
}

}  // namespace
}  // namespace paddle::remote
