#include <gtest/gtest.h>

#include "engine/commands/command.h"
#include "tests/support/temporary_folder.h"

namespace paddle::commands {
namespace {

constexpr const char* kJob = R"(name = "tiny"
[data]
train = "train.txt-*"
format = "ngram"
dictionary = "words.txt"
ngram = 2
[[layer]]
name = "e0"
type = "embedding"
input = ["word0"]
size = 4
weight = { name = "_proj", initial_std = 0.001, sparse = true }
[[layer]]
name = "output"
type = "fc"
input = ["e0"]
size = "dictionary"
[[layer]]
name = "cost"
type = "softmax_cross_entropy"
input = ["output"]
label = "next"
[optimizer]
method = "adagrad"
learning_rate = 0.1
[train]
passes = 2
)";

class PlanCommand : public testing::Test {
 protected:
  PlanCommand() {
    folder_.write("words.txt", "a\nb\n<unk>");
    folder_.write("job.toml", kJob);
  }

  std::string plan(std::vector<std::string> flags) {
    flags.insert(flags.begin(), {"plan", "--config=" + folder_ / "job.toml"});
    const char* const environment[] = {nullptr};
    testing::internal::CaptureStdout();
    const int code = run_program(flags, environment);
    return std::to_string(code) + " " + testing::internal::GetCapturedStdout();
  }

  test::TemporaryFolder folder_;
};

// A dense element has its value and Adagrad's sum of squares: 8 bytes.
TEST_F(PlanCommand, JsonNamesPortsBlocksAndTables) {
  EXPECT_EQ(plan({"--json", "--pservers=10.0.0.1,10.0.0.2:80", "--pserver_names=n-0,n-1"}),
            R"(0 {"ports":[{"port":"10.0.0.1:7164","node":"n-0","kind":"dense","bytes":96},)"
            R"({"port":"10.0.0.2:80","node":"n-1","kind":"dense","bytes":24},)"
            R"({"port":"10.0.0.1:7165","node":"n-0","kind":"sparse"},)"
            R"({"port":"10.0.0.2:81","node":"n-1","kind":"sparse"}],"blocks":[)"
            R"({"parameter":"_output.w0","block":0,"begin":0,"elements":12,"bytes":96,)"
            R"("port":"10.0.0.1:7164"},{"parameter":"_output.wbias","block":0,"begin":0,)"
            R"("elements":3,"bytes":24,"port":"10.0.0.2:80"}],"tables":[)"
            R"({"parameter":"_proj","width":4,"row_bytes":32}]})"
            "\n");
}

TEST_F(PlanCommand, TextHasALineForEachBlockAndPort) {
  const std::string text = plan({"--ports_num=1"});
  EXPECT_TRUE(text.starts_with("0 parameter")) << text;
  EXPECT_TRUE(
      text.starts_with("0 parameter      block  elements     bytes  port\n"
                       "_output.w0         0        12        96  127.0.0.1:7164\n"))
      << text << "columns as wide as what is in them: the last one is long";
  EXPECT_NE(text.find("dense port 0 (127.0.0.1:7164): 120 bytes\n"), std::string::npos) << text;
  EXPECT_NE(text.find("32 a row  127.0.0.1:7165, by row id\n"), std::string::npos) << text;
}

TEST_F(PlanCommand, FlagsOverrideTheJob) {
  const std::string text = plan({"--set=optimizer.method=sgd", "--json"});
  EXPECT_NE(text.find(R"("row_bytes":16)"), std::string::npos) << text;
  EXPECT_TRUE(plan({"--num_passes=-1"}).starts_with("2 "));
}

TEST_F(PlanCommand, TablesOfAProgramNeedNoNetwork) {
  folder_.write("job.toml",
                "[trainer]\ncommand = [\"./train\"]\n[optimizer]\nmethod = \"adagrad\"\n"
                "[[table]]\nname = \"user\"\nwidth = 16\n");
  EXPECT_EQ(plan({"--json", "--ports_num=0", "--pservers=10.0.0.1"}),
            R"(0 {"ports":[{"port":"10.0.0.1:7164","node":"10.0.0.1","kind":"sparse"}],)"
            R"("blocks":[],"tables":[{"parameter":"user","width":16,"row_bytes":128}]})"
            "\n");
  folder_.write("job.toml",
                "[trainer]\ncommand = [\"./train\"]\n[[table]]\nname = \"model\"\nwidth = 1\n");
  EXPECT_TRUE(plan({"--ports_num=0"}).starts_with("2 ")) << "snapshots have a folder of this name";
}

}  // namespace
}  // namespace paddle::commands
