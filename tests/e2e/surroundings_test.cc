// NO_COLOR, TERM and the XDG folders, seen from a terminal of its own.
#include <filesystem>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/support/temporary_folder.h"
#include "tests/support/terminal_process.h"

namespace paddle::test {
namespace {

namespace fs = std::filesystem;

constexpr const char* kRed = "\x1b[31m";

class Surroundings : public ::testing::Test {
 protected:
  // All that the terminal shows of one command.
  std::string shown(const std::vector<std::string>& arguments,
                    std::vector<std::string> environment) {
    environment.push_back("PATH=/usr/bin:/bin");
    std::vector<std::string> all{"/usr/bin/env", "-C", folder_.path(), PADDLECTL_PROGRAM};
    all.insert(all.end(), arguments.begin(), arguments.end());
    TerminalProcess process(all, environment);
    code_ = process.wait();
    return process.shown();
  }

  void up(const std::vector<std::string>& environment) {
    folder_.write("cluster.toml", fmt::format("workdir = \"{}\"\n[[node]]\nlauncher = \"local\"\n",
                                              folder_ / "nodes"));
    const std::string text = shown({"up", "cluster.toml"}, environment);
    EXPECT_EQ(code_, 0) << text;
    EXPECT_NE(shown({"teardown", "--yes", "--discard"}, environment), "");
    EXPECT_EQ(code_, 0);
  }

  TemporaryFolder folder_;
  int code_ = -1;
};

TEST_F(Surroundings, ColourIsForTerminalsThatHaveItAndPeopleWhoWantIt) {
  const std::vector<std::string> wrong{"status", "--cluster", "none.toml"};
  EXPECT_NE(shown(wrong, {"TERM=xterm"}).find(kRed), std::string::npos);
  EXPECT_EQ(code_, 2);
  EXPECT_NE(shown(wrong, {"TERM=xterm", "NO_COLOR="}).find(kRed), std::string::npos)
      << "empty is as if it were not there: no-color.org";
  for (const std::vector<std::string>& plain :
       {std::vector<std::string>{"TERM=xterm", "NO_COLOR=1"}, {"TERM=dumb"}}) {
    const std::string text = shown(wrong, plain);
    EXPECT_EQ(text.find('\x1b'), std::string::npos) << text;
    EXPECT_NE(text.find("error: cannot find cluster file"), std::string::npos) << text;
  }
}

TEST_F(Surroundings, HashesAndJournalAreKeptWhereTheEnvironmentSaysAndNothingElseInTheHomeFolder) {
  const std::string home = folder_ / "home";
  fs::create_directory(home);
  up({"HOME=" + home, "XDG_CACHE_HOME=" + (folder_ / "cache"),
      "XDG_STATE_HOME=" + (folder_ / "state")});
  EXPECT_TRUE(fs::exists(folder_ / "cache/paddlectl/hashes"));
  EXPECT_TRUE(fs::exists(folder_ / "state/paddlectl/jobs"));
  EXPECT_TRUE(fs::is_empty(home));
  up({"HOME=" + home, "XDG_CACHE_HOME=relative", "XDG_STATE_HOME=relative"});
  EXPECT_TRUE(fs::exists(home + "/.cache/paddlectl/hashes")) << "a relative one does not count";
  EXPECT_FALSE(fs::exists(folder_ / "relative"));
  EXPECT_TRUE(fs::exists(home + "/.local/state/paddlectl/jobs"));
  EXPECT_EQ(std::distance(fs::directory_iterator(home), fs::directory_iterator()), 2);
  up({"HOME=", "XDG_CACHE_HOME=", "XDG_CONFIG_HOME=" + (folder_ / "config"),
      "XDG_RUNTIME_DIR=" + (folder_ / "run")});
  for (const char* const folder : {"config", "none", "run"})
    EXPECT_FALSE(fs::exists(folder_ / folder)) << "there is nothing to put there";
}

}  // namespace
}  // namespace paddle::test
