// The pages of docs/ that readers follow by hand: the tutorial's commands are run as they stand,
// each recipe is planned and trained, and a job starts the program of trainer.md.
#include <algorithm>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/e2e/cli_local_test_cluster.h"
#include "tests/support/free_ports.h"

namespace paddle::test {
namespace {

namespace fs = std::filesystem;

// Under ThreadSanitizer training takes many times as long.
constexpr auto kTutorialDeadline = std::chrono::seconds(280);

struct Block {
  std::string section;  // the last heading above it
  std::string kind;     // behind ```: "sh", or "toml job.toml"
  std::string text;
};

// The fenced blocks of a page of docs/.
std::vector<Block> blocks_of(const std::string& page) {
  std::istringstream lines(TemporaryFolder::read(fs::path(DOCS_FOLDER) / page));
  std::vector<Block> blocks;
  std::string section;
  bool inside = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("```")) {
      inside = !inside;
      if (inside) blocks.push_back({section, line.substr(3), ""});
    } else if (inside) {
      blocks.back().text += line + "\n";
    } else if (line.starts_with("#")) {
      section = line.substr(line.find(' ') + 1);
    }
  }
  return blocks;
}

using Files = std::map<std::string, std::string>;

// Blocks with a file's name behind ```<language>, by section.
std::map<std::string, Files> files_of(const std::string& page) {
  std::map<std::string, Files> found;
  for (const Block& block : blocks_of(page)) {
    const std::size_t blank = block.kind.find(' ');
    if (blank != std::string::npos) found[block.section][block.kind.substr(blank + 1)] = block.text;
  }
  return found;
}

std::set<std::string> matches(const std::string& text, const char* pattern) {
  const std::regex regex(pattern);
  std::set<std::string> words;
  for (std::sregex_iterator at(text.begin(), text.end(), regex), end; at != end; ++at)
    words.insert((*at)[1]);
  return words;
}

std::string replaced(std::string text, const std::string& old, const std::string& by) {
  const std::size_t at = text.find(old);
  EXPECT_NE(at, std::string::npos) << old;
  return at == std::string::npos ? text : text.replace(at, old.size(), by);
}

TEST(Tutorial, RunsAsItStandsAndLearnsAllButTheNoise) {
  std::string script = "set -eux\n";
  for (const Block& block : blocks_of("tutorial.md")) {
    EXPECT_EQ(block.kind, "sh") << block.section;
    script += block.text;
  }
  const TemporaryFolder folder;
  const std::string path = "PATH=" + fs::path(PADDLECTL_PROGRAM).parent_path().string() + ":" +
                           fs::path(PADDLE_PROGRAM).parent_path().string() + ":/usr/bin:/bin";
  if (Process({"/bin/sh", "-c", "curl --version"}, folder / "needed", {path}).wait() != 0)
    GTEST_SKIP() << "there is no curl";
  script = replaced(script, "port = 7164", fmt::format("port = {}", free_ports(4)));
  script = std::regex_replace(script, std::regex("8500"), fmt::format("{}", free_ports(1)));
  folder.write("page.sh", script);
  Process page({"/usr/bin/env", "-C", folder.path(), "/bin/sh", "page.sh"}, folder / "page.txt",
               {"HOME=" + folder.path(), path});
  EXPECT_EQ(page.wait(kTutorialDeadline), 0) << page.output();

  const std::vector<double> costs = held_out_costs(page.output());
  ASSERT_GE(costs.size(), 14U) << page.output();
  EXPECT_LT(costs[5], 800);  // an RMSE of 28; the noise alone is 20
  EXPECT_TRUE(fs::exists(folder / "output/first/pass-00007/MANIFEST"));
  const std::string estimates = TemporaryFolder::read(folder / "estimates.csv");
  EXPECT_EQ(std::ranges::count(estimates, '\n'), 20000);
  std::smatch answers;
  const std::string text = TemporaryFolder::read(folder / "answers.txt");
  ASSERT_TRUE(std::regex_search(text, answers,
                                std::regex(R"re(\{"score":([\d.]+)\}\s*\{"score":([\d.]+)\})re")))
      << text;
  EXPECT_NEAR(std::stod(answers[1]), 738.5, 40) << "the page's formula";
  EXPECT_NE(answers[1], answers[2]) << "a missing age is read as 21";
  EXPECT_FALSE(fs::exists(folder / ".paddlectl")) << "the page leaves files on its nodes";
}

// The ten minutes of python.md: a torch program before and after its ten lines.
TEST(PythonPage, ItsTenLinesMoveATableToThePservers) {
  std::string script = "set -eux\n";
  for (const Block& block : blocks_of("python.md")) {
    if (block.kind == "sh") script += block.text;
  }
  const TemporaryFolder folder;
  const std::string path = "PATH=" + fs::path(PADDLECTL_PROGRAM).parent_path().string() + ":" +
                           fs::path(PADDLE_PROGRAM).parent_path().string() + ":/usr/bin:/bin";
  for (const char* const needed : {"patch --version", "python3 -c 'import numpy, torch'"}) {
    if (Process({"/bin/sh", "-c", needed}, folder / "needed", {path}).wait() != 0)
      GTEST_SKIP() << "there is no " << needed;
  }
  script = replaced(script, "port = 7164", fmt::format("port = {}", free_ports(4)));
  folder.write("page.sh", script);
  Process page({"/usr/bin/env", "-C", folder.path(), "/bin/sh", "page.sh"}, folder / "page.txt",
               {"HOME=" + folder.path(), path, "PYTHONPATH=" PYTHON_FOLDER});
  ASSERT_EQ(page.wait(kTutorialDeadline), 0) << page.output();

  const std::string log = TemporaryFolder::read(folder / "output/first/node_0/train.log");
  const std::size_t last = log.find("epoch 5: AUC ");
  ASSERT_NE(last, std::string::npos) << log;
  EXPECT_GT(std::stod(log.substr(last + 13)), 0.8) << log;  // 0.9 is the best, 0.5 is no model
  EXPECT_NE(page.output().find("\n(3, 8)\n"), std::string::npos) << page.output();
  // It gives no costs, so nothing can be said about them.
  EXPECT_EQ(page.output().find("diverge"), std::string::npos) << page.output();
  EXPECT_FALSE(fs::exists(folder / ".paddlectl")) << "the page leaves files on its nodes";
}

// The lines for a notebook, with a smaller workspace `clicks`.
TEST(PythonPage, ItsNotebookTrainsAndFetches) {
  const TemporaryFolder folder;
  const std::string path = "PATH=" + fs::path(PADDLECTL_PROGRAM).parent_path().string() + ":" +
                           fs::path(PADDLE_PROGRAM).parent_path().string() + ":/usr/bin:/bin";
  if (Process({"/bin/sh", "-c", "python3 -c 'import numpy'"}, folder / "needed", {path}).wait() !=
      0)
    GTEST_SKIP() << "there is no numpy";
  std::string program;
  for (const Block& block : blocks_of("python.md")) {
    if (block.section == "From a notebook" && block.kind == "python") program += block.text;
  }
  ASSERT_NE(program.find("cluster.toml"), std::string::npos);
  folder.write("cluster.toml",
               fmt::format("name = \"notebook\"\nport = {}\n[[node]]\nname = \"node\"\n"
                           "launcher = \"local\"\ncount = 2\n",
                           free_ports(4)));
  folder.write("lines.py", program + "print('costs', len(cost), cost.dtype, folder)\n");
  folder.write("lines",
               "set -eu\npaddlectl init --template ctr_dnn clicks\n"
               "clicks/prepare --examples 60000 --test 2000\npython3 lines.py\n");
  Process typed({"/usr/bin/env", "-C", folder.path(), "/bin/sh", "lines"}, folder / "typed.txt",
                {"HOME=" + folder.path(), path, "PYTHONPATH=" PYTHON_FOLDER});
  ASSERT_EQ(typed.wait(kTutorialDeadline), 0) << typed.output();
  EXPECT_TRUE(std::regex_search(typed.output(),
                                std::regex("costs [1-9]\\d* float64 .*/output/clicks-\\d+-\\d+\n")))
      << typed.output();
}

TEST(PythonPage, ItsPiecesOfProgramsAreWellFormed) {
  if (!fs::exists("/usr/bin/python3")) GTEST_SKIP() << "there is no python3";
  const TemporaryFolder folder;
  std::string program;
  for (const Block& block : blocks_of("python.md")) {
    if (block.kind == "python") program += block.text + "\n";
  }
  EXPECT_FALSE(program.empty());
  Process compiled({"/usr/bin/python3", "-m", "py_compile", folder.write("page.py", program)},
                   folder / "compiled.txt");
  EXPECT_EQ(compiled.wait(), 0) << compiled.output();
}

TEST(Recipes, AreOneForEachRowOfThePagesTable) {
  const std::string page = TemporaryFolder::read(fs::path(DOCS_FOLDER) / "recipes.md");
  const auto all = files_of("recipes.md");
  EXPECT_EQ(all.size(), 5U);
  for (const auto& [name, files] : all) {
    std::string anchor = name;
    for (char& c : anchor) c = static_cast<char>(std::tolower(c));
    EXPECT_NE(page.find("](#" + anchor + ")"), std::string::npos) << name;
  }
}

TEST(Recipes, CanBePlannedAndTrained) {
  LocalCluster cluster(1);
  ASSERT_EQ(cluster.run({"up", "cluster.toml"}).code, 0);
  for (const auto& [name, files] : files_of("recipes.md")) {
    for (const auto& [file, text] : files) {
      cluster.folder().write(name + "/" + file, text);
      const std::size_t train = file.find("train");
      if (train == std::string::npos) continue;
      // "data/train.csv-0" is tested on as well, as "data/test.csv".
      std::string test = file.substr(0, file.size() - 2);
      cluster.folder().write(name + "/" + test.replace(train, 5, "test"), text);
    }
    const Outcome planned = cluster.run({"plan", name});
    EXPECT_EQ(planned.code, 0) << name << "\n" << planned.output;
    EXPECT_TRUE(planned.says("port 0")) << name << "\n" << planned.output;
    const Outcome trained = cluster.run({"train", "--name", name, name});
    EXPECT_EQ(trained.code, 0) << name << "\n" << trained.output;
    const std::vector<double> costs = held_out_costs(trained.output);
    ASSERT_GE(costs.size(), 3U) << name << "\n" << trained.output;
    EXPECT_LT(costs.back(), costs.front()) << name << "\n" << trained.output;
  }
  EXPECT_EQ(cluster.run({"teardown", "--yes"}).code, 0);
}

class TrainerPage : public testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(cluster_.run({"up", "cluster.toml"}).code, 0); }

  // The log of the first of two trainers.
  std::string train(const std::string& workspace) {
    trained_ = cluster_.run({"train", "--trainers", "2", "--pservers", "1", "--name", "own",
                             "--restarts", "1", "--set", "train.passes=3", workspace});
    EXPECT_EQ(trained_.code, 0) << trained_.output;
    return TemporaryFolder::read(cluster_.folder() / "output/own/node_0/train.log");
  }

  LocalCluster cluster_{2};
  Outcome trained_;
};

TEST_F(TrainerPage, ShowsAProgramWhoseFilesAndMetricsComeHome) {
  if (!fs::exists("/usr/bin/python3")) GTEST_SKIP() << "there is no python3";
  for (const auto& [section, files] : files_of("trainer.md")) {
    for (const auto& [file, text] : files) cluster_.folder().write("line/" + file, text);
  }
  const std::string log = train("line");
  EXPECT_EQ(held_out_costs(trained_.output).size(), 3U) << trained_.output << log;
  EXPECT_TRUE(trained_.says(", slope 1.9") || trained_.says(", slope 2")) << trained_.output;
  for (const char* file : {"line-0.json", "line-1.json"}) {
    const std::string line =
        TemporaryFolder::read(cluster_.folder() / ("output/own/" + std::string(file)));
    EXPECT_NE(line.find("slope"), std::string::npos) << file;
  }
  const Outcome status = cluster_.run({"status"});
  EXPECT_FALSE(matches(status.output, R"((trainer-1 +done +3/3 +- +60 ))").empty())
      << status.output;
}

TEST_F(TrainerPage, NamesEveryVariableAndNoOther) {
  cluster_.folder().write("print/job.toml", "[trainer]\ncommand = [\"env\"]\n");
  const std::string variable =
      "((?:PADDLE|TRAINING|MASTER|RANK|WORLD|LOCAL|NCCL|GLOO|FLAGS|PYTHONPATH)[A-Za-z_]*)";
  const auto set = matches(train("print"), ("(?:^|\n)" + variable + "=").c_str());
  EXPECT_GT(set.size(), 20U);
  std::string page = TemporaryFolder::read(fs::path(DOCS_FOLDER) / "trainer.md");
  page.resize(page.find("\n## GPUs"));  // those of --gpus have a test of their own
  std::set<std::string> told;
  for (const std::string& row : matches(page, R"((?:^|\n)\| (`[^|]*`) \| `)"))
    told.merge(matches(row, ("`" + variable + "`").c_str()));
  EXPECT_EQ(told, set);
}

}  // namespace
}  // namespace paddle::test
