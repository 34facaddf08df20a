// `paddlectl completion` and `man`, read by the shells and by groff.
#include <filesystem>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/support/process.h"
#include "tests/support/temporary_folder.h"

namespace paddle::test {
namespace {

namespace fs = std::filesystem;

class CompletionTest : public testing::Test {
 protected:
  // Its exit code and what it printed.
  std::pair<int, std::string> run(std::vector<std::string> command) {
    const std::string output = folder_ / "printed";
    fs::remove(output);
    Process process(std::move(command), output, {"PATH=/usr/bin:/bin", "HOME=" + folder_.path()});
    const int code = process.wait(std::chrono::seconds(30)).value_or(-1);
    return {code, process.output()};
  }
  std::string script(const std::string& shell) {
    const auto [code, text] = run({PADDLECTL_PROGRAM, "completion", shell});
    EXPECT_EQ(code, 0) << text;
    return folder_.write("completion." + shell, text);
  }
  // Bash's completions of the last word, one per line.
  std::string bash(const std::string& words) {
    const auto [code, text] =
        run({"/bin/bash", "-c",
             "source \"$1\"; eval \"COMP_WORDS=($2)\"; COMP_CWORD=$((${#COMP_WORDS[@]} - 1))\n"
             "_paddlectl; for reply in \"${COMPREPLY[@]}\"; do echo \"$reply\"; done; complete -p "
             "paddlectl >&2",
             "bash", bash_script_, words});
    EXPECT_EQ(code, 0) << text;
    constexpr std::string_view kRegistered = "complete -F _paddlectl paddlectl\n";
    EXPECT_TRUE(text.ends_with(kRegistered)) << text;
    return text.substr(0, text.size() - std::min(text.size(), kRegistered.size()));
  }

  TemporaryFolder folder_;
  std::string bash_script_;
};

TEST_F(CompletionTest, AScriptThatIsNotAllWrittenIsAnErrorUnlessItsReaderHasGone) {
  const auto shell = [this](const std::string& text) {
    return run({"/bin/sh", "-c", text, PADDLECTL_PROGRAM});
  };
  const auto [code, text] = shell("\"$0\" completion bash >/dev/full");
  EXPECT_EQ(code, 7);
  EXPECT_TRUE(text.starts_with("error: not all of the output could be written to stdout\n"))
      << text;
  EXPECT_EQ(shell("\"$0\" --json man >/dev/full").second.substr(0, 22),
            R"({"error": {"code": 7, )");
  EXPECT_EQ(shell("{ \"$0\" man; echo $? >&2; } | true").second, "0\n");
  EXPECT_EQ(shell("\"$0\" man >&- 2>&- <&-").first, 0) << "as with /dev/null";
}

TEST_F(CompletionTest, BashOffersCommandsOptionsAndValues) {
  bash_script_ = script("bash");
  EXPECT_EQ(bash("paddlectl tr"), "trust\ntrain\n");
  EXPECT_EQ(bash("paddlectl train --resu"), "--resume\n");
  EXPECT_EQ(bash("paddlectl --json status --wat"), "--watch\n");
  EXPECT_EQ(bash("paddlectl logs --js"), "--json\n") << "the program's own, after any command";
  EXPECT_EQ(bash("paddlectl completion z"), "zsh\n");
  EXPECT_EQ(bash("paddlectl exec -- --"), "") << "another program's words";
  EXPECT_EQ(bash("paddlectl train --name --res"), "") << "a name, whatever it looks like";
}

TEST_F(CompletionTest, BashOffersJobsNodesAndKeys) {
  bash_script_ = script("bash");
  const std::string file = folder_.write("c.toml", "[[node]]\nhost = \"n[1-2]\"\n");
  const std::string program = PADDLECTL_PROGRAM;
  EXPECT_EQ(bash(program + " check --cluster " + file + " --on n"), "n1\nn2\n");
  EXPECT_EQ(bash(program + " check --cluster = " + file + " --on n1,n"), "n1,n1\nn1,n2\n");
  EXPECT_EQ(bash(program + " train --set train.pass"), "train.passes=\n");
  EXPECT_EQ(bash(program + " init --template word"), "word2vec\n");
  EXPECT_EQ(bash(program + " help tra"), "train\n");
  EXPECT_EQ(bash(program + " logs --role tr"), "trainer\n");
}

TEST_F(CompletionTest, FishOffersTheSame) {
  if (!fs::exists("/usr/bin/fish")) GTEST_SKIP() << "no fish here: scripts/deps optional";
  const std::string file = script("fish");
  const auto offered = [&](const std::string& line) {
    return run({"/usr/bin/fish", "--no-config", "-c",
                fmt::format("source {}; complete -C '{}'", file, line)})
        .second;
  };
  EXPECT_TRUE(offered("paddlectl tr").starts_with("train\tpush a workspace"));
  EXPECT_TRUE(offered("paddlectl train --resu").starts_with("--resume\t"));
  EXPECT_TRUE(offered("paddlectl completion z").starts_with("zsh"));
}

TEST_F(CompletionTest, ZshTakesItsScript) {
  if (!fs::exists("/usr/bin/zsh")) GTEST_SKIP() << "no zsh here: scripts/deps optional";
  const auto [code, text] =
      run({"/usr/bin/zsh", "-f", "-c",
           fmt::format("autoload -Uz compinit; compinit -u -D; source {}; echo $_comps[paddlectl]",
                       script("zsh"))});
  EXPECT_EQ(code, 0);
  EXPECT_EQ(text, "_paddlectl\n");
}

TEST_F(CompletionTest, TheManualHasEveryCommandThatBashOffers) {
  bash_script_ = script("bash");
  const auto [code, page] = run({PADDLECTL_PROGRAM, "man"});
  ASSERT_EQ(code, 0);
  std::string commands;
  for (std::size_t at = 0; (at = page.find("\n.SS ", at)) != page.npos; ++at)
    commands += page.substr(at + 5, page.find('\n', at + 1) - at - 4);
  EXPECT_EQ(commands, bash("paddlectl ''"));
  EXPECT_NE(page.find("\\fB\\-\\-resume\\fR"), page.npos);
  EXPECT_NE(page.find("75 stopped and can continue"), page.npos);
  if (!fs::exists("/usr/bin/groff")) GTEST_SKIP() << "no groff here to read the page";
  const auto read = run({"/usr/bin/groff", "-man", "-ww", "-z", folder_.write("page.1", page)});
  EXPECT_EQ(read.first, 0);
  EXPECT_EQ(read.second, "") << "what it complains of";
}

}  // namespace
}  // namespace paddle::test
