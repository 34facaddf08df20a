// Workspaces that `init` makes from the templates, far from the repository: every line of their
// READMEs works with the installed programs, and those that are only built make the same workspace.
#include <cstdlib>
#include <filesystem>
#include <regex>
#include <sstream>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/rng.h"
#include "tests/e2e/cli_local_test_cluster.h"

namespace paddle::test {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> template_names() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(TEMPLATES_FOLDER)) {
    if (fs::exists(entry.path() / "job.toml")) names.push_back(entry.path().filename());
  }
  return names;
}

// Noise: nothing is to be learned from it here.
std::string digits(int count) {
  Rng rng(1);
  std::string text;
  for (int i = 0; i < count; ++i) {
    for (int pixel = 0; pixel < 64; ++pixel) text += fmt::format("{},", rng.below(17));
    text += fmt::format("{}\n", rng.below(10));
  }
  return text;
}

std::string ratings(int count) {
  Rng rng(1);
  std::string text;
  for (int i = 0; i < count; ++i) {
    text += fmt::format("{}\t{}\t{}\t{}\n", rng.below(50), rng.below(50), 1 + rng.below(5), i);
  }
  return text;
}

// Small data for a README's bare `./prepare`, which takes or draws a lot.
std::string small_data(const std::string& name) {
  if (name == "word2vec" || name == "skipgram") return " ptb.train.txt";
  if (name == "quick_start") return " labelled.txt";
  if (name == "digits" || name == "torch_ddp") return " digits.txt";
  return " --examples 2000 --test 500";
}

std::string replaced(const std::string& text, const char* from, const std::string& to) {
  return std::regex_replace(text, std::regex(from), to);
}

class InitTemplate : public testing::TestWithParam<std::string> {
 protected:
  InitTemplate() {
    const LocalCluster& cluster = cluster_;
    run("paddlectl init --template " + name_ + " built", "");
    programs_ = cluster.folder() / "usr/bin";
    run(fmt::format("'{}' --install '{}' --prefix usr", CMAKE_PROGRAM, BUILD_FOLDER), "");
    run("paddlectl init --template " + name_ + " 'my work'", "");
    run("diff -r built 'my work'", "");
    // Files that the READMEs' users have.
    const TemporaryFolder& folder = cluster.folder();
    folder.write("my work/ptb.train.txt", chained_sentences(300));
    folder.write("my work/ptb.valid.txt", chained_sentences(100));
    folder.write("my work/labelled.txt", labelled_texts(300));
    folder.write("my work/digits.txt", digits(200));
    folder.write("my work/ml-100k/u.data", ratings(2000));
  }

  // In a shell, as if typed in that folder.
  void run(const std::string& line, const std::string& where) {
    const std::string log = cluster_.folder() / fmt::format("line-{}.txt", lines_++);
    Process process({"/usr/bin/env", "-C", cluster_.folder() / where,
                     "PATH=" + programs_ + ":/usr/bin:/bin", "sh", "-c", line},
                    log);
    EXPECT_EQ(process.wait(), 0) << "$ " << line << '\n' << process.output();
  }

  // A README's line with small data and one pass, whose job gets a name.
  void run_of_readme(std::string line) {
    line = replaced(line, " *#.*", "");
    if (line == "./prepare") line += small_data(name_);
    if (line.starts_with("paddlectl train")) {
      job_ = fmt::format("job-{}", lines_);
      line += " --set train.passes=1 --cluster ../cluster.toml --name " + job_;
      ++trained_;
    }
    line = replaced(replaced(line, "<job>", job_), "pass-[0-9]+", "pass-00000");
    line = replaced(line, "king water|moses three", "waa wab");  // the Bible's words
    run(line, "my work");
  }

  LocalCluster cluster_{2};
  std::string programs_ = fs::path(PADDLECTL_PROGRAM).parent_path();
  std::string name_ = GetParam();
  std::string job_;
  int lines_ = 0;
  int trained_ = 0;
};

TEST_P(InitTemplate, EveryLineAndPathOfItsReadmeWorks) {
  if (name_.starts_with("torch_") &&
      std::system("/usr/bin/python3 -c 'import torch, numpy' 2>/dev/null") != 0)
    GTEST_SKIP() << "there is no python3-torch";
  const fs::path work = cluster_.folder() / "my work";
  const std::string readme = TemporaryFolder::read(work / "README.md");
  EXPECT_TRUE(readme.starts_with("# " + name_ + ": ")) << readme;  // for `init --list`
  run("paddlectl up cluster.toml", "");
  std::istringstream lines(readme);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("    ")) run_of_readme(line.substr(4));
  }
  EXPECT_GE(trained_, 1) << readme;
  run("paddlectl teardown --yes", "");
  EXPECT_TRUE(cluster_.nothing_left());

  const std::string pages = readme + TemporaryFolder::read(work / "job.toml");
  const std::regex path(R"(`([\w.*-]*/[\w./*-]*|[\w.-]+\.(toml|md))`|\w+/[\w./-]+\.(toml|md)\b)");
  for (std::sregex_iterator at(pages.begin(), pages.end(), path), end; at != end; ++at) {
    const std::string named = replaced(at->str(), "`", "");
    EXPECT_TRUE(fs::exists(work / named)) << name_ << " names " << named << ", which is not there";
  }
}

INSTANTIATE_TEST_SUITE_P(All, InitTemplate, testing::ValuesIn(template_names()),
                         [](const auto& name) { return name.param; });

}  // namespace
}  // namespace paddle::test
