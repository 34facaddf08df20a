// The rules of .paddleignore beside git's own answers for the same files.
#include "cli/job/ignore_rules.h"

#include <algorithm>
#include <filesystem>
#include <random>
#include <set>
#include <sstream>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/support/process.h"
#include "tests/support/temporary_folder.h"

namespace paddle::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kGit = "/usr/bin/git";

class GitTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!fs::exists(kGit)) GTEST_SKIP() << "no git here";
    ASSERT_EQ(run_git({"init", "-q", "."}), "");
  }

  std::string run_git(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {kGit, "-C", folder_.path()});
    const std::string output = out_ / fmt::format("out-{}", ++runs_);
    test::Process git(arguments, output,
                      {"PATH=/usr/bin:/bin", "HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1",
                       "GIT_CONFIG_GLOBAL=/dev/null"});
    EXPECT_EQ(git.wait(), 0) << git.output();
    return git.output();
  }
  // The files that git would add, without its own.
  std::set<std::string> of_git() {
    std::istringstream text(run_git({"ls-files", "-z", "--others", "--exclude-standard"}));
    std::set<std::string> files;
    for (std::string file; std::getline(text, file, '\0');) {
      if (!file.ends_with(".gitignore")) files.insert(file);
    }
    return files;
  }
  // Those that the rules leave.
  void walk(const std::string& folder, IgnoreRules& rules, std::set<std::string>& files) {
    const fs::path here = fs::path(folder_.path()) / folder;
    if (fs::exists(here / ".gitignore"))
      rules.add(folder, test::TemporaryFolder::read(here / ".gitignore"));
    for (const auto& entry : fs::directory_iterator(here)) {
      const std::string name = entry.path().filename();
      if (name == ".git" || name == ".gitignore") continue;
      const bool is_folder = entry.is_directory() && !entry.is_symlink();
      if (rules.ignores(folder + name, is_folder)) continue;
      if (is_folder) {
        walk(folder + name + "/", rules, files);
      } else {
        files.insert(folder + name);
      }
    }
  }
  std::set<std::string> of_rules() {
    IgnoreRules rules;
    std::set<std::string> files;
    walk("", rules, files);
    return files;
  }
  void compare() {
    const std::set<std::string> git = of_git(), ours = of_rules();
    std::vector<std::string> differ;
    std::ranges::set_symmetric_difference(git, ours, std::back_inserter(differ));
    for (const std::string& file : differ) {
      const std::string top = file.substr(0, file.find('/') + 1);
      ADD_FAILURE() << (git.contains(file) ? "only git leaves " : "only we leave ") << file
                    << " by:\n"
                    << test::TemporaryFolder::read(folder_ / (top + ".gitignore"));
      if (HasFailure()) break;
    }
    EXPECT_GT(git.size(), 0U);
  }

  test::TemporaryFolder folder_, out_;
  int runs_ = 0;
};

TEST_F(GitTest, MarksClassesBlanksAndEndsOfLinesCountAsForGit) {
  const auto folder = [&](const std::string& name, const std::string& rules,
                          const std::vector<std::string>& files) {
    folder_.write(name + "/.gitignore", rules);
    for (const std::string& file : files) folder_.write(name + "/" + file, "");
  };
  folder("bom", "\xef\xbb\xbfsecret.txt\nother.txt\n", {"secret.txt", "other.txt", "keep.txt"});
  folder("bom-comment", "\xef\xbb\xbf#x\n\xef\xbb\xbfy\n", {"#x", "x", "y", "\xef\xbb\xbfy"});
  folder("digit", "[[:digit:]]*.log\n", {"1a.log", "d.log", "keep.log"});
  folder("classes", "x[[:upper:]_].t\ny[^[:alnum:]]\nz[[:space:][:punct:]a-]\n",
         {"xA.t", "x_.t", "xa.t", "y-", "ya", "z ", "z!", "za", "z-", "zb"});
  folder("wrong", "[[:nonsense:]]\n[abc\n[]\n[!]\na\\\n", {"n", "[abc", "[]", "[!]", "a\\", "a"});
  folder("odd", "[[:alpha]1\n[]-]2\n[a\\-z]3\n[z-a]4\n[--0]5\n[\\]]6\n",
         {"[1", ":1", "a1", "]2", "-2", "b2", "a3", "-3", "m3", "m4", "-5", "/5x", ".5", "]6"});
  folder("blank", "a.txt \nb\\ \nc.txt\t\nd\\  \n e\n",
         {"a.txt", "b ", "b", "c.txt", "c.txt\t", "d ", "d", " e", "e"});
  folder("crlf", "a.txt\r\n*.o\r\n\r\nlast\r", {"a.txt", "b.o", "keep", "last", "last\r"});
  folder("again", "*.dat\n!keep.dat\n/x.dat\n",
         {"a.dat", "keep.dat", "x.dat", "sub/x.dat", "sub/keep.dat"});
  folder("stars", "a/**/z\n**/tmp\nfoo/**\n!foo/keep\nb**/y\n**x\nc/**.o\n",
         {"a/z", "a/b/z", "a/b/c/z", "q/tmp/f", "foo/keep", "foo/b", "b1/y", "b/1/y", "ax", "1/ax",
          "c/a.o", "c/d/a.o"});
  folder("escape", "\\#a\n\\!b\nc\\*\nd\\\\\n", {"#a", "!b", "c*", "cd", "d\\"});
  folder("slash", "a/\n/b/\nc/d\n//\n/\ne//f\n", {"a/x", "s/a/x", "b/x", "s/b/x", "c/d", "s/c/d"});
  folder("nul", std::string("a\0b\nc\n", 6), {"a", "b", "c"});
  compare();
}

TEST_F(GitTest, RandomRulesLeaveWhatGitLeaves) {
  std::mt19937 random(20261127);
  const auto one_of = [&](const std::vector<std::string>& texts) {
    return texts[random() % texts.size()];
  };
  const std::vector<std::string> names = {"a", "b",  "ab", "a.o",  "b.o", "A1", "x y", "-",
                                          "]", "#c", "!d", "a\\b", "aab", "B_", "1"};
  const std::vector<std::string> pieces = {
      "a",     "b",    "*",           "**",          "?",       "/",   "**/",   "/**",
      "[a-b]", "[!a]", "[[:digit:]]", "[[:upper:]]", "[]-]",    "\\",  "\\*",   ".o",
      "A",     "1",    " ",           "\\ ",         "#",       "!",   "[",     "]",
      "-",     "[^b]", "x",           "\\a",         "[[:x:]]", "[b-", "[\\]a]"};
  for (int number = 0; number < 300; ++number) {
    const std::string top = fmt::format("case-{:03}/", number);
    for (int i = 0; i < 12; ++i) {
      std::string path = top;
      for (std::size_t depth = random() % 4; depth > 0; --depth) path += one_of(names) + "d/";
      folder_.write(path + one_of(names), "");
    }
    for (int file = 0; file < 2; ++file) {
      std::string rules = random() % 8 == 0 ? "\xef\xbb\xbf" : "";
      for (std::size_t line = 1 + random() % 4; line > 0; --line) {
        if (random() % 4 == 0) rules += "!";
        for (std::size_t piece = 1 + random() % 4; piece > 0; --piece) rules += one_of(pieces);
        if (random() % 4 == 0) rules += "d/";
        rules += one_of({"\n", "\n", "\n", "\r\n", " \n"});
      }
      // One at the top, and one in some folder.
      std::string folder = top;
      for (const auto& entry : fs::directory_iterator(folder_ / top)) {
        if (file == 1 && entry.is_directory())
          folder = top + entry.path().filename().string() + "/";
      }
      folder_.write(folder + ".gitignore", rules);
    }
  }
  compare();
}

TEST(IgnoreRules, ALongLineOfStarsEnds) {
  IgnoreRules rules;
  std::string line;
  for (int i = 0; i < 2000; ++i) line += "*a**/";
  rules.add("", line + "b\n");
  std::string path;
  for (int i = 0; i < 1000; ++i) path += "aa/";
  EXPECT_FALSE(rules.ignores(path + "a", false));
}

}  // namespace
}  // namespace paddle::cli
