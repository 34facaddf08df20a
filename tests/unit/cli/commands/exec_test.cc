// exec, put and get against nodes in memory.
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <barrier>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <gtest/gtest.h>

#include "cli/command_line.h"
#include "tests/support/fake_agent_client.h"
#include "tests/support/temporary_folder.h"

namespace paddle::cli {
namespace {

using remote::CommandEnd;
using remote::CommandOutput;
using remote::CommandSpec;

class ExecTest : public testing::Test {
 protected:
  ExecTest() {
    folder_.write("c.toml",
                  "name = \"t\"\n[[node]]\nname = \"n\"\nlauncher = \"local\"\ncount = 3\n");
    for (std::size_t i = 0; i < nodes_.size(); ++i) answer(i, "same\n", {});
  }

  void answer(std::size_t node, const std::string& text, CommandEnd end) {
    nodes_[node].on_run = [this, text, end](const CommandSpec& command,
                                            const CommandOutput& output) -> Result<CommandEnd> {
      const std::lock_guard lock(mutex_);
      seen_.push_back(command);
      output(text, false);
      return end;
    };
  }

  int run(std::vector<std::string> arguments) {
    out_.str("");
    err_.str("");
    Console console(out_, err_, {});
    Context context{
        console,
        clock_,
        [this](const remote::NodeSpec& spec, bool) -> Result<std::unique_ptr<remote::AgentClient>> {
          remote::FakeNode& fake = nodes_[spec.name.back() - std::size_t{'0'}];
          if (fake.unreachable)
            return Error{Errc::kUnreachable, "node " + spec.name + ": no route", ""};
          return std::unique_ptr<remote::AgentClient>(new remote::FakeAgentClient(spec, fake));
        },
        [](Duration) {},
        [this] { return interrupted_.load(); },
        [] { return std::int64_t{1}; },
        "",
        folder_.path()};
    arguments.insert(arguments.begin() + 1, {"--cluster", folder_ / "c.toml"});
    return run_app(context, std::move(arguments));
  }

  test::TemporaryFolder folder_;
  SteadyClock clock_;
  std::array<remote::FakeNode, 3> nodes_;
  std::mutex mutex_;
  std::vector<CommandSpec> seen_;
  std::atomic<bool> interrupted_ = false;
  std::barrier<> begun_{3};
  std::ostringstream out_, err_;
};

TEST_F(ExecTest, EqualResultsAreShownOnceAndArgumentsStayAsTheyAre) {
  EXPECT_EQ(run({"exec", "--timeout", "5", "--", "a b", "--json", "--", "*"}), 0) << err_.str();
  EXPECT_EQ(out_.str(), "n-[0-2]: same\n");
  ASSERT_EQ(seen_.size(), 3U);
  EXPECT_EQ(seen_[0].arguments, (std::vector<std::string>{"a b", "--json", "--", "*"}));
  EXPECT_EQ(seen_[0].timeout, std::chrono::seconds(5));
}

TEST_F(ExecTest, GravestCodeIsOursAndTheTableTellsWhichNodesFailed) {
  answer(1, "\x1b[31mred\n", {17, 0, false});
  nodes_[2].unreachable = true;
  EXPECT_EQ(run({"exec", "--", "x"}), 17);
  EXPECT_NE(out_.str().find("n-0: same\n"), std::string::npos) << out_.str();
  EXPECT_NE(out_.str().find("n-1: \\x1b[31mred\n"), std::string::npos) << out_.str();
  EXPECT_NE(out_.str().find("exit 17"), std::string::npos) << out_.str();
  EXPECT_NE(err_.str().find("2 of 3 nodes"), std::string::npos) << err_.str();
  EXPECT_NE(err_.str().find("node n-2: no route"), std::string::npos) << err_.str();
}

TEST_F(ExecTest, TheHintIsTrueWhateverHappened) {
  const auto hint_of = [&](const std::string& text, CommandEnd end) {
    for (std::size_t i = 0; i < nodes_.size(); ++i) answer(i, text, end);
    EXPECT_NE(run({"exec", "--", "x"}), 0);
    const std::size_t at = err_.str().find("hint: ");
    return at == std::string::npos ? "" : err_.str().substr(at + 6);
  };
  EXPECT_TRUE(hint_of("", {1, 0, false}).starts_with("the command printed nothing"));
  EXPECT_TRUE(
      hint_of("", {3, 0, false}).starts_with("the command printed nothing and exited with code 3"));
  EXPECT_TRUE(hint_of("said\n", {1, 0, false}).starts_with("see the command's output above"));
  EXPECT_TRUE(hint_of("", {0, 9, false}).starts_with("signal 9 ended the command on the node"));
  EXPECT_TRUE(
      hint_of("said\n", {0, 15, true}).starts_with("the command takes longer than --timeout"));
  for (remote::FakeNode& node : nodes_) node.unreachable = true;
  EXPECT_EQ(hint_of("", {}).find("output"), std::string::npos) << err_.str();
  EXPECT_NE(err_.str().find("did not finish on 3 of 3 nodes"), std::string::npos);
}

TEST_F(ExecTest, AnOptionOfTheCommandIsAskedToStandBehindDashes) {
  EXPECT_EQ(run({"exec", "uname", "-r"}), 2);
  EXPECT_NE(err_.str().find("put -- before the command: paddlectl exec --cluster"),
            std::string::npos)
      << err_.str();
  EXPECT_NE(err_.str().find("c.toml -- uname -r\n"), std::string::npos) << err_.str();
  EXPECT_EQ(run({"exec", "--on", "n-0", "grep", "--color=never", "x"}), 2);
  EXPECT_NE(err_.str().find("--on n-0 -- grep --color=never x\n"), std::string::npos) << err_.str();
  EXPECT_EQ(run({"exec", "--colour"}), 2);
  EXPECT_EQ(err_.str().find("put --"), std::string::npos) << err_.str();
  EXPECT_TRUE(seen_.empty());
}

TEST_F(ExecTest, OfAProgressBarTheNewestStateIsShown) {
  answer(0, "\r10%\r 50%\r100%\ndone\r\n", {});
  EXPECT_EQ(run({"exec", "--on", "n-0", "--", "x"}), 0);
  EXPECT_EQ(out_.str(), "n-0:\n100%\ndone\n");
  EXPECT_EQ(run({"exec", "--on", "n-0", "--stream", "--", "x"}), 0);
  EXPECT_EQ(out_.str(), "n-0 | 100%\nn-0 | done\n");
  answer(0, "\r10%\r20%", {});
  EXPECT_EQ(run({"exec", "--on", "n-0", "--stream", "--", "x"}), 0);
  EXPECT_EQ(out_.str().find("10%"), std::string::npos) << out_.str();
  EXPECT_NE(out_.str().find("n-0 | 20%\n"), std::string::npos) << out_.str();
}

TEST_F(ExecTest, PutKeepsFoldersModesAndLinks) {
  folder_.write("site/conf/a", "x");
  std::filesystem::create_directories(folder_ / "site/cache/old");
  std::filesystem::create_symlink("/usr/bin/python3", folder_ / "site/python3");
  ASSERT_EQ(::mkfifo((folder_ / "site/pipe").c_str(), 0600), 0);
  ASSERT_EQ(::chmod((folder_ / "site/conf").c_str(), 0751), 0);
  ASSERT_EQ(::chmod((folder_ / "site/conf/a").c_str(), 0664), 0);
  ASSERT_EQ(run({"put", "--on", "n-0", folder_ / "site", "/srv"}), 0) << err_.str();
  EXPECT_NE(
      err_.str().find("1 left out, because sockets, pipes and devices are not copied: site/pipe"),
      std::string::npos)
      << err_.str();
  std::string made;
  for (const TreeEntry& entry : nodes_[0].exported)
    made += entry.path + (entry.link.empty() ? "" : "->" + entry.link) + " ";
  EXPECT_EQ(made,
            "site site/cache site/cache/old site/conf site/conf/a "
            "site/python3->/usr/bin/python3 ");
  EXPECT_EQ(nodes_[0].exported[3].mode, 0751U);
  EXPECT_EQ(nodes_[0].exported[4].mode, 0664U);
  EXPECT_EQ(nodes_[0].files["/srv/site/conf/a"], "x");
}

TEST_F(ExecTest, GetKeepsFoldersModesTimesAndLinks) {
  using Kind = TreeEntry::Kind;
  namespace fs = std::filesystem;
  constexpr std::int64_t kSecond = 1'000'000'000;
  const mode_t umask_before = ::umask(022);
  nodes_[0].copied = {{{"site", Kind::kFolder, 0751, 5 * kSecond, 0, ""}},
                      {{"site/empty", Kind::kFolder, 0770, 6 * kSecond, 0, ""}},
                      {{"site/empty/below", Kind::kFolder, 0555, 7 * kSecond, 0, ""}},
                      {{"site/shared", Kind::kFile, 0664, 8 * kSecond, 1, ""}, 1, ""},
                      {{"site/empty/run", Kind::kFile, 0755, 9 * kSecond, 1, ""}, 2, ""},
                      {{"site/absolute", Kind::kLink, 0777, 10 * kSecond, 0, "/usr/bin/python3"}},
                      {{"site/empty/up", Kind::kLink, 0777, 11 * kSecond, 0, "../../../none"}}};
  EXPECT_EQ(run({"get", "--on", "n-0", "/srv/site", "back"}), 0) << err_.str();
  const fs::path site = fs::path(folder_.path()) / "back/n-0/site";
  const auto mode_and_time = [&](const char* name) {
    struct stat info {};
    EXPECT_EQ(::lstat((site / name).c_str(), &info), 0) << name;
    return std::pair(info.st_mode & 07777, static_cast<std::int64_t>(info.st_mtim.tv_sec));
  };
  using Both = std::pair<mode_t, std::int64_t>;
  EXPECT_EQ(mode_and_time(""), Both(0751, 5));
  EXPECT_EQ(mode_and_time("empty"), Both(0750, 6)) << "reduced by the umask";
  EXPECT_EQ(mode_and_time("empty/below"), Both(0555, 7));
  EXPECT_EQ(fs::read_symlink(site / "absolute"), "/usr/bin/python3");
  EXPECT_EQ(mode_and_time("absolute").second, 10);
  EXPECT_EQ(fs::read_symlink(site / "empty/up"), "../../../none");
  EXPECT_EQ(test::TemporaryFolder::read(site / "shared"), "1");
  EXPECT_EQ(test::TemporaryFolder::read(site / "empty/run"), "2");
  ASSERT_EQ(nodes_[0].fetched.size(), 2U);
  EXPECT_EQ(nodes_[0].fetched[0].mode, 0644U);
  EXPECT_EQ(nodes_[0].fetched[0].mtime_ns, 8 * kSecond);
  EXPECT_EQ(nodes_[0].fetched[1].mode, 0755U);
  EXPECT_EQ(nodes_[0].fetched[1].mtime_ns, 9 * kSecond);
  // Links that were made before are replaced, and folders are used again.
  EXPECT_EQ(run({"get", "--on", "n-0", "/srv/site", "back"}), 0) << err_.str();
  EXPECT_EQ(fs::read_symlink(site / "absolute"), "/usr/bin/python3");
  EXPECT_EQ(mode_and_time("empty"), Both(0750, 6));
  fs::permissions(site / "empty/below", fs::perms::owner_all);
  ::umask(umask_before);
}

TEST_F(ExecTest, GetWritesThroughNoLink) {
  using Kind = TreeEntry::Kind;
  nodes_[0].files["/srv/site"] = "";
  folder_.make("outside");
  // A node that lies about what it asked for: the file is a folder.
  nodes_[0].more_copied = {{{"site/x", Kind::kFile, 0644, 0, 5, ""}, 2, ""}};
  EXPECT_NE(run({"get", "--on", "n-0", "/srv/site", "back"}), 0);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "back/n-0/site/x"));
  EXPECT_NE(run({"get", "--on", "n-0", "/srv/site", "back", "--json"}), 0);
  EXPECT_NE(out_.str().find("\"files\": 0"), std::string::npos) << "nothing came: " << out_.str();
  nodes_[0].more_copied.clear();
  std::filesystem::remove_all(folder_ / "back");
  std::filesystem::create_directories(folder_ / "back");
  std::filesystem::create_symlink(folder_ / "outside", folder_ / "back/n-0");
  EXPECT_EQ(run({"get", "--on", "n-0", "/srv/site", "back"}), 6);
  EXPECT_NE(err_.str().find("is a link, and results are not written through links"),
            std::string::npos)
      << err_.str();
  EXPECT_TRUE(std::filesystem::is_empty(folder_ / "outside"));
  nodes_[0].left_out = {"a/socket"};
  std::filesystem::remove(folder_ / "back/n-0");
  EXPECT_EQ(run({"get", "--on", "n-0", "/srv/site", "back"}), 0) << err_.str();
  EXPECT_NE(
      err_.str().find(
          "node n-0: 1 left out, because sockets, pipes and devices are not copied: a/socket"),
      std::string::npos)
      << err_.str();
  EXPECT_NE(out_.str().find("done, except for 1 that are not files"), std::string::npos)
      << out_.str();
}

// As with the results of a job: a user that can exchange the folder for a link decides where the
// node's files land.
TEST_F(ExecTest, GetWritesNothingWhereAFetchIsRefused) {
  namespace fs = std::filesystem;
  for (remote::FakeNode& node : nodes_) node.files["/srv/f.txt"] = "content";
  const test::TemporaryFolder elsewhere;
  const auto get = [&](const std::string& to) {
    return run({"get", "--on", "n-[0-1]", "/srv/f.txt", to});
  };
  const auto refused = [&](const std::string& to, int code, const char* why) {
    EXPECT_EQ(get(to), code) << err_.str();
    EXPECT_NE(err_.str().find(why), std::string::npos) << err_.str();
    EXPECT_EQ(err_.str().find("--output"), std::string::npos) << "get has no such option";
  };
  const std::string open = elsewhere.make("open");
  ASSERT_EQ(::chmod(open.c_str(), 0777), 0);
  refused(open, 5, "can be written by all users");
  refused(open + "/not/there/yet", 5, "can be written by all users");
  EXPECT_TRUE(fs::is_empty(open));
  const std::string link = "is a link, and results are not written through links";
  const std::string outside = elsewhere.make("outside");
  fs::create_directory_symlink(outside, folder_ / "logs");
  refused("logs", 6, link.c_str());
  refused("logs/", 6, link.c_str());
  refused(folder_ / "logs/below", 6, link.c_str());
  // One link refuses the whole command, before any node copies anything.
  fs::create_directories(folder_ / "back");
  fs::create_directory_symlink(outside, folder_ / "back/n-1");
  refused("back", 6, link.c_str());
  EXPECT_FALSE(fs::exists(folder_ / "back/n-0"));
  EXPECT_TRUE(fs::is_empty(outside));
  if (::geteuid() == 0) {  // only root gives folders away
    for (const char* const place : {"theirs", "theirs/n-0"}) {
      const std::string theirs = elsewhere.make(place);
      ASSERT_EQ(::chown(theirs.c_str(), 65534, 65534), 0);
      refused(elsewhere / "theirs", std::string(place) == "theirs" ? 5 : 6, "belongs to ");
      EXPECT_TRUE(fs::is_empty(theirs));
      ASSERT_EQ(::chown(theirs.c_str(), 0, 0), 0);
    }
  }
  // In a sticky folder such as /tmp a user cannot rename files of another one. Outside the current
  // directory, a link that the user names is the user's own.
  ASSERT_EQ(::chmod(open.c_str(), 01777), 0);
  EXPECT_EQ(get(open), 0) << err_.str();
  EXPECT_TRUE(fs::exists(open + "/n-1/f.txt"));
  fs::create_directory_symlink(outside, elsewhere / "own");
  EXPECT_EQ(get(elsewhere / "own"), 0) << err_.str();
  EXPECT_TRUE(fs::exists(outside + "/n-0/f.txt"));
}

// As rsync does, which ends with 23.
TEST_F(ExecTest, WhatCannotBeReadOnANodeIsNamedAndTheRestIsCopied) {
  nodes_[0].files["/srv/site"] = "content";
  nodes_[0].unreadable = {"site/key", "site/private"};
  EXPECT_EQ(run({"get", "--on", "n-0", "/srv/site", "back"}), 1);
  EXPECT_NE(err_.str().find("node n-0: 2 cannot be read: site/key, site/private; the rest is "
                            "copied"),
            std::string::npos)
      << err_.str();
  EXPECT_NE(out_.str().find("done, except for 2 that cannot be read"), std::string::npos)
      << out_.str();
  std::ifstream back(folder_ / "back/n-0/site");
  std::string text;
  std::getline(back, text);
  EXPECT_EQ(text, "content");
}

TEST_F(ExecTest, TheHintOfAFailedCommandIsThatOfItsExitCode) {
  for (const auto& [code, hint] :
       {std::pair(127, "hint: install nosuch on the node, or give its path"),
        {126, "hint: make it executable on the node: chmod +x nosuch"},
        {3, "hint: see the command's output above"}}) {
    CommandEnd end;
    end.exit_code = code;
    answer(0, "said\n", end);
    EXPECT_EQ(run({"exec", "--", "nosuch"}), code);
    EXPECT_NE(err_.str().find(hint), std::string::npos) << err_.str();
    EXPECT_EQ(run({"exec", "--shell", "nosuch"}), code);
    EXPECT_NE(err_.str().find("see the command's output above"), std::string::npos)
        << "not that /bin/sh is to be installed: " << err_.str();
  }
}

TEST_F(ExecTest, TheHintOfAProgramThatWasNotExecutedNamesTheReason) {
  const auto hint_for = [&](const std::string& program, const std::string& next_step) {
    answer(0, "", {127, 0, false, next_step});
    EXPECT_EQ(run({"exec", "--", program}), 127);
    return err_.str();
  };
  EXPECT_NE(hint_for("/x.sh", "its line").find("hint: /x.sh: its line"), std::string::npos);
  EXPECT_NE(hint_for("~/x", "").find("no shell expands ~/x: use --shell"), std::string::npos);
  EXPECT_NE(hint_for("$HOME/x", "").find("no shell expands $HOME/x"), std::string::npos);
  EXPECT_NE(hint_for("ls -l", "").find("each argument as a word of its own"), std::string::npos);
}

TEST_F(ExecTest, ACommandThatIsTooLargeIsNotRun) {
  const std::vector<std::string> many(1000, std::string(100, 'x'));
  std::vector<std::string> words = {"exec", "--", "echo"};
  words.insert(words.end(), many.begin(), many.end());
  for (const auto& line :
       {words, std::vector<std::string>{"exec", "--shell", "echo " + std::string(120'000, 'x')}}) {
    EXPECT_EQ(run(line), 2);
    EXPECT_NE(err_.str().find("the arguments have 1"), std::string::npos) << err_.str();
    EXPECT_NE(err_.str().find("kB, and the limit is 64 KiB"), std::string::npos) << err_.str();
    EXPECT_NE(err_.str().find("hint: pass fewer"), std::string::npos) << err_.str();
    EXPECT_EQ(out_.str(), "") << "no result is unknown";
  }
  EXPECT_TRUE(seen_.empty());
}

TEST_F(ExecTest, WhatCannotBePutIsNamed) {
  ASSERT_EQ(::mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const std::string open_pipe = "/dev/fd/" + std::to_string(ends[0]);
  for (const std::string& path : {std::string(folder_ / "pipe"), open_pipe}) {
    EXPECT_EQ(run({"put", path, "/srv/"}), 2);
    EXPECT_NE(err_.str().find(path + " is no file, but a pipe"), std::string::npos) << err_.str();
    EXPECT_NE(err_.str().find("hint: write its content to a file first"), std::string::npos);
  }
  EXPECT_EQ(run({"put", "/dev/null", "/srv/"}), 2);
  EXPECT_NE(err_.str().find("/dev/null is no file, but a device"), std::string::npos) << err_.str();
  ::close(ends[0]);
  ::close(ends[1]);
  const std::string file = folder_.write("f.txt", "x");
  EXPECT_EQ(run({"put", file, "/srv/" + std::string(256, 'n')}), 2);
  EXPECT_NE(err_.str().find("a name in it has over 255 bytes"), std::string::npos) << err_.str();
  EXPECT_EQ(run({"get", std::string(256, 'n') + "/x", "back"}), 2);
  EXPECT_EQ(run({"put", "--on", "n-0", file, "/srv/" + std::string(255, 'n')}), 0) << err_.str();
}

TEST_F(ExecTest, NodesCanBeNamedAndAShellAskedFor) {
  EXPECT_EQ(run({"exec", "--on", "n-[1-2]", "--shell", "a | b", "--stream"}), 0) << err_.str();
  ASSERT_EQ(seen_.size(), 2U);
  EXPECT_EQ(seen_[0].arguments, (std::vector<std::string>{"/bin/sh", "-c", "a | b"}));
  EXPECT_NE(out_.str().find("n-2 | same\n"), std::string::npos) << out_.str();
  EXPECT_EQ(out_.str().find("n-0"), std::string::npos);
  EXPECT_EQ(run({"exec", "--on", "m-1", "--", "x"}), 2);
  EXPECT_EQ(run({"exec"}), 2);
  EXPECT_EQ(run({"exec", "--shell", "a", "--", "b"}), 2);
}

TEST_F(ExecTest, AStreamEndsWithItsReader) {
  answer(0, "y\n", {0, 15, false});
  EXPECT_EQ(run({"exec", "--stream", "--on", "n-0", "--", "yes"}), 143);
  EXPECT_FALSE(nodes_[0].run_is_interrupted);
  out_.setstate(std::ios::badbit);
  EXPECT_EQ(run({"exec", "--stream", "--on", "n-0", "--", "yes"}), 0) << err_.str();
  EXPECT_TRUE(nodes_[0].run_is_interrupted);
}

TEST_F(ExecTest, CtrlCNamesTheNodesOnWhichTheCommandMayStillRun) {
  const auto begun = [&](std::size_t node, Result<CommandEnd> end) {
    nodes_[node].on_run = [this, end](const CommandSpec&, const CommandOutput&) {
      begun_.arrive_and_wait();  // so that Ctrl-C leaves no node out
      interrupted_ = true;
      return end;
    };
  };
  const CommandEnd ended{0, 15, false};
  const Error gone{Errc::kUnreachable, "node n-1: the command did not end before the deadline"};
  for (const char* const option : {"", "--stream", "--json"}) {
    for (std::size_t node = 0; node < nodes_.size(); ++node) begun(node, ended);
    std::vector<std::string> exec{"exec", "--", "sleep", "1000"};
    if (*option != 0) exec.insert(exec.begin() + 1, option);
    interrupted_ = false;
    EXPECT_EQ(run(exec), 130) << option;
    EXPECT_NE(err_.str().find("interrupted; the command no longer runs on any node"),
              std::string::npos)
        << err_.str();
    EXPECT_EQ((out_.str() + err_.str()).find("not run"), std::string::npos);

    begun(1, gone);
    interrupted_ = false;
    EXPECT_EQ(run(exec), 130) << option;
    EXPECT_NE(err_.str().find("interrupted; the command may still run on n-1"), std::string::npos)
        << err_.str();
    EXPECT_NE(err_.str().find("node n-1: the command did not end before the deadline"),
              std::string::npos);
    EXPECT_NE(err_.str().find("check those nodes then"), std::string::npos) << err_.str();
    if (std::string(option) == "--json") continue;
    EXPECT_NE(out_.str().find("result unknown"), std::string::npos) << out_.str();
    EXPECT_NE(out_.str().find("signal 15"), std::string::npos) << out_.str();
  }
  // Before any node is reached.
  interrupted_ = true;
  EXPECT_EQ(run({"exec", "--", "sleep", "1000"}), 130);
  EXPECT_NE(err_.str().find("the command no longer runs on any node"), std::string::npos);
  EXPECT_NE(out_.str().find("not run"), std::string::npos) << out_.str();
}

TEST_F(ExecTest, JsonTellsEachNode) {
  answer(0, "x", {0, 9, true});
  EXPECT_EQ(run({"exec", "--json", "--on", "n-0", "--", "x"}), 4);
  EXPECT_NE(out_.str().find("\"exit_code\": 137"), std::string::npos) << out_.str();
  EXPECT_NE(out_.str().find("\"timed_out\": true"), std::string::npos) << out_.str();
}

TEST_F(ExecTest, PutAndGetLeaveNothingOfTheirOwnBehind) {
  folder_.write("f.txt", "content");
  EXPECT_EQ(run({"put", folder_ / "f.txt", "/srv"}), 0) << err_.str();
  for (remote::FakeNode& node : nodes_)
    EXPECT_EQ(node.files, (std::map<std::string, std::string>{{"/srv/f.txt", "content"}}));
  EXPECT_EQ(run({"get", "--on", "n-1", "/srv/f.txt", "back"}), 0) << err_.str();
  std::ifstream back(folder_ / "back/n-1/f.txt");
  std::string text;
  std::getline(back, text);
  EXPECT_EQ(text, "content");
  EXPECT_EQ(nodes_[1].files.size(), 1U);
  EXPECT_TRUE(nodes_[0].copies_end_with_interrupts && nodes_[1].copies_end_with_interrupts);
  EXPECT_EQ(out_.str().find("removed"), std::string::npos) << out_.str();
  nodes_[1].gone = 2;
  EXPECT_EQ(run({"get", "--on", "n-1", "/srv/f.txt", "back"}), 0) << err_.str();
  EXPECT_NE(out_.str().find("done, except for 2 removed meanwhile"), std::string::npos)
      << out_.str();
  EXPECT_EQ(run({"get", "/srv/none", "back"}), 1);
  EXPECT_EQ(run({"put", folder_ / "none", "/srv"}), 2);
}

TEST_F(ExecTest, PathsThatMeanSomethingElseToScpOrAShellAreRefused) {
  folder_.write("f.txt", "content");
  const std::string file = folder_ / "f.txt";
  for (const auto& [command, what] : std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"put", file, ""}, "the path on the nodes is empty"},
           {{"put", "", "/srv/"}, "the name of a file to copy is empty"},
           {{"put", "/", "/srv/"}, "/ cannot be copied as a whole"},
           {{"put", file, "~root/x"}, "give the absolute path; for a file of that name: ./~root/x"},
           {{"put", file, "n-1:/srv/x"}, "paddlectl put --on n-1 FILE... /srv/x;"},
           {{"put", file, "me@n-1:x"}, "only a path is expected"},
           {{"get", "n-[0-1]:/srv/x", "back"}, "paddlectl get --on n-[0-1] /srv/x FOLDER;"},
           {{"get", "", "back"}, "the path on the nodes is empty"},
           {{"get", "/srv/f.txt", ""}, "the name of the folder here is empty"}}) {
    EXPECT_EQ(run(command), 2);
    EXPECT_NE(err_.str().find(what), std::string::npos) << what << "; " << err_.str();
  }
  for (remote::FakeNode& node : nodes_) EXPECT_TRUE(node.files.empty());
  EXPECT_EQ(run({"get", "/srv/*.txt", "back"}), 1);
  EXPECT_NE(err_.str().find("patterns are not expanded on nodes"), std::string::npos) << err_.str();
  for (const char* good : {"./~root", "~/x", "12:30.log", "/srv/n-1:x"})
    EXPECT_EQ(run({"put", "--on", "n-0", file, good}), 0) << err_.str();
}

TEST_F(ExecTest, GetTakesNothingBesideWhatWasAskedFor) {
  nodes_[0].files["/srv/f.txt"] = "content";
  for (const char* const name : {".git/config", "evil", "f.txt2"}) {
    nodes_[0].more_copied = {{{name, TreeEntry::Kind::kFile, 0644, 0, 5, ""}, 2, ""}};
    EXPECT_EQ(run({"get", "--on", "n-0", "/srv/f.txt", "back"}), 6) << name;
    EXPECT_NE(err_.str().find("instead of f.txt"), std::string::npos) << err_.str();
    EXPECT_FALSE(std::filesystem::exists(folder_ / ("back/n-0/" + std::string(name)))) << name;
  }
  nodes_[0].more_copied.clear();
  EXPECT_EQ(run({"get", "--on", "n-0", "/srv/f.txt", "back"}), 0) << err_.str();
}

TEST_F(ExecTest, GetLooksForRoomBeforeTheFirstByte) {
  for (remote::FakeNode& node : nodes_) node.files["/srv/f.txt"] = "content";
  nodes_[1].claimed_size = 1ULL << 60U;
  EXPECT_EQ(run({"get", "/srv/f.txt", "back"}), 7) << err_.str();
  EXPECT_NE(err_.str().find("node n-1: no room for its 1153 PB: back has "), std::string::npos)
      << err_.str();
  EXPECT_TRUE(std::filesystem::exists(folder_ / "back/n-0/f.txt"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "back/n-1/f.txt"));
}

TEST_F(ExecTest, OutputOverTheLimitIsCutAndItsRestCounted) {
  answer(0, std::string((16U << 20U) + 1000, 'x'), {});
  EXPECT_EQ(run({"exec", "--json", "--on", "n-0", "--", "yes"}), 0) << err_.str();
  EXPECT_NE(out_.str().find("xxx\", \"stderr\": \"\", \"dropped_bytes\": 1000}"), std::string::npos)
      << out_.str().substr(out_.str().size() - 200);
}

TEST_F(ExecTest, TwoFilesOfOneNameAreNotPut) {
  folder_.write("a/x", "1");
  folder_.write("b/x", "2");
  EXPECT_EQ(run({"put", folder_ / "a/x", folder_ / "b/x", "/srv/"}), 2);
  EXPECT_NE(err_.str().find("two files would have the name x"), std::string::npos) << err_.str();
  for (const remote::FakeNode& node : nodes_) EXPECT_TRUE(node.files.empty());
}

}  // namespace
}  // namespace paddle::cli
