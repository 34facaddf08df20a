// A job.toml as a whole: its sections, its overrides and its mistakes.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "base/named_rows.h"
#include "engine/config/layer_keys.h"
#include "engine/config/toml_reader.h"
#include "tests/unit/engine/config/job_config_fixture.h"

namespace paddle::config {
namespace {

TEST_F(JobConfigTest, ReadsEveryPart) {
  const auto job = read_job(folder_.write("job.toml", kJob));
  ASSERT_TRUE(job) << job.error().message;
  EXPECT_EQ(job->name, "tiny");
  EXPECT_EQ(job->seed, 5U);
  EXPECT_EQ(job->data.dictionary_size, 3U);
  ASSERT_EQ(job->layers.size(), 3U);
  EXPECT_EQ(job->layers[1].location, folder_ / "job.toml:14");
  EXPECT_EQ(job->layers[0].weight.name, "_proj");
  EXPECT_TRUE(job->layers[0].weight.sparse);
  EXPECT_EQ(job->layers[0].weight.l2, 0.0F);
  EXPECT_EQ(job->layers[1].size, 3U);
  EXPECT_EQ(job->layers[1].activation, "");
  EXPECT_TRUE(job->layers[1].has_bias);
  EXPECT_EQ(job->layers[1].weight.l2, std::nullopt);
  EXPECT_EQ(job->layers[1].bias.learning_rate, 2.0F);
  EXPECT_EQ(job->layers[2].label, "next");
  EXPECT_EQ(job->optimizer.method(), "adagrad");
  EXPECT_EQ(job->optimizer.l2(), 8e-4F);
  EXPECT_EQ(job->dense_strategy, wire::STRATEGY_ASYNC);
  EXPECT_EQ(job->sparse_strategy, wire::STRATEGY_SYNC);
  EXPECT_EQ(job->train.passes, 2U);
  EXPECT_EQ(job->train.batch_size, 32U);
}

TEST_F(JobConfigTest, ATrainerOfOnesOwnMayDoWithoutNetworkAndData) {
  const auto bare = read_job(folder_.write("job.toml", "[trainer]\ncommand = [\"a\", \"b c\"]\n"));
  ASSERT_TRUE(bare) << bare.error().message;
  EXPECT_EQ(bare->command, (std::vector<std::string>{"a", "b c"}));
  EXPECT_FALSE(bare->has_network());
  const auto data = read_job(
      folder_.write("job.toml", "[data]\ntrain = \"x-*\"\n[trainer]\ncommand = [\"a\"]\n"));
  ASSERT_TRUE(data) << data.error().message;
  EXPECT_EQ(data->data.train, "x-*");
  const auto both = read_job(edited("passes = 2\n", "passes = 2\n[trainer]\ncommand = [\"a\"]\n"));
  ASSERT_TRUE(both) << both.error().message;
  EXPECT_TRUE(both->has_network());
  EXPECT_NE(mistake("passes = 2\n", "passes = 2\n[trainer]\ncommand = []\n")
                .find("'command' names no program"),
            std::string::npos);
  EXPECT_NE(mistake("passes = 2\n", "passes = 2\n[trainer]\ncomand = [\"a\"]\n")
                .find("did you mean 'command'?"),
            std::string::npos);
}

TEST_F(JobConfigTest, OverridesWin) {
  const auto job = read_job(folder_.write("job.toml", kJob), {"train.passes=7", "name=other"});
  ASSERT_TRUE(job) << job.error().message;
  EXPECT_EQ(job->train.passes, 7U);
  EXPECT_EQ(job->name, "other");
}

TEST_F(JobConfigTest, WithoutOverridesTheResolvedTextIsTheFile) {
  const std::string text = std::string("# mine\r\n") + kJob;
  const auto job = resolve_job(folder_.write("job.toml", text));
  ASSERT_TRUE(job) << job.error().message;
  EXPECT_EQ(job->written, text);
  EXPECT_EQ(job->text, text);
  EXPECT_EQ(job->config.train.passes, 2U);
}

TEST_F(JobConfigTest, TheResolvedTextNeedsNoOverrides) {
  const std::string path = edited("passes = 2", "passes = 2\nbatch_size_total = 64  # of all");
  const std::string written = test::TemporaryFolder::read(path);
  const auto job = resolve_job(
      path, {"train.passes=7", "train.batch_size=5", "optimizer.learning_rate=0.1", "name=a \"b\"",
             "optimizer.l2=1.4e-45", R"(data.pipe_command=["sh", "-c", "a\nb\t\u007f''' é"])"});
  ASSERT_TRUE(job) << job.error().message;
  EXPECT_EQ(job->written, written);
  const auto read = read_job(folder_.write("job.toml", job->text));
  ASSERT_TRUE(read) << read.error().message << job->text;
  EXPECT_EQ(read->train.passes, 7U);
  EXPECT_EQ(read->train.batch_size, 5U) << "--set stands before batch_size_total of the file";
  EXPECT_EQ(read->train.batch_size_total, 0U);
  EXPECT_EQ(read->optimizer.learning_rate(), 0.1F);
  EXPECT_EQ(read->optimizer.l2(), 1.4e-45F) << "the same bits";
  EXPECT_EQ(read->name, "a \"b\"");
  EXPECT_EQ(read->data.pipe_command, job->config.data.pipe_command);
  EXPECT_EQ(read->data.pipe_command.back(), "a\nb\t\x7f''' é");
  EXPECT_EQ(read->layers[0].weight.initial_std, job->config.layers[0].weight.initial_std);
}

TEST_F(JobConfigTest, AResolvedTextThatNoProgramWouldReadIsRefused) {
  std::string job = kJob;
  job.insert(0, "# " + std::string(kConfigBytesMax - job.size() - 3, 'x') + "\n");
  EXPECT_TRUE(resolve_job(folder_.write("job.toml", job), {"train.passes=7"})) << "comments go";
  const auto refused =
      resolve_job(folder_.write("job.toml", kJob), {"name=" + std::string(kConfigBytesMax, 'x')});
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("with its values in place"), std::string::npos)
      << refused.error().message;
}

TEST_F(JobConfigTest, AFolderOrAnAbsentFileIsNamedWithTheWayToTheJob) {
  const std::string file = folder_.write("job.toml", kJob);
  const std::string folder = file.substr(0, file.rfind('/'));
  const auto by_folder = read_job(folder);
  ASSERT_FALSE(by_folder);
  EXPECT_EQ(by_folder.error().message, folder + " is a folder");
  EXPECT_EQ(by_folder.error().hint, "name the file in it: --config=" + file);
  const auto absent = read_job(folder + "/other.toml");
  ASSERT_FALSE(absent);
  EXPECT_EQ(absent.error().hint, "name the job's file: --config=FOLDER/job.toml");
}

TEST_F(JobConfigTest, NamesMistakes) {
  EXPECT_EQ(mistake("passes = 2", "pases = 2"),
            "job.toml:32:1: unknown key 'pases', did you mean 'passes'?");
  EXPECT_EQ(mistake("\"word0\"", "\"word9\""),
            "job.toml:11:9: 'word9' is neither a data slot nor an earlier layer");
  EXPECT_EQ(mistake("label = \"next\"\n", ""), "job.toml:20:1: cost has no 'label'");
  EXPECT_EQ(mistake("size = \"dictionary\"", "size = \"all\""),
            "job.toml:18:8: 'size' must be an integer or \"dictionary\"");
  EXPECT_EQ(mistake("\"output\"\ntype", "\"e0\"\ntype"),
            "job.toml:15:8: the name 'e0' is already taken");
  EXPECT_EQ(
      mistake("type = \"fc\"", "type = \"fcc\""),
      fmt::format("job.toml:16:8: 'type' is 'fcc', but must be one of '{}'; did you mean 'fc'?",
                  fmt::join(row_names(layer_types()), "', '")));
  EXPECT_EQ(mistake("type = \"fc\"", "type = \"fc\"\nactivation = \"rellu\""),
            fmt::format("job.toml:17:14: 'activation' is 'rellu', but must be one of '{}'; did you "
                        "mean 'relu'?",
                        fmt::join(kActivations, "', '")));
  EXPECT_EQ(mistake("type = \"softmax_cross_entropy\"\ninput = [\"output\"]\nlabel = \"next\"",
                    "type = \"squared_error\"\ninput = [\"output\"]"),
            "job.toml:20:1: cost has no 'label'");
  EXPECT_EQ(mistake("seed = 5", "seed = -5"), "job.toml:2:8: 'seed' is -5, but must be at least 0");
  EXPECT_EQ(mistake("train = \"data/train.txt-*\"\n", ""), "job.toml:3:1: [data] has no 'train'");
}

TEST_F(JobConfigTest, AMissingDictionaryIsNamedAtItsKey) {
  const auto job = read_job(edited("words.txt", "none.txt"));
  ASSERT_FALSE(job);
  EXPECT_NE(job.error().message.find("job.toml:6:14: open "), std::string::npos)
      << job.error().message;
  EXPECT_NE(job.error().message.find("none.txt: No such file"), std::string::npos);
}

TEST_F(JobConfigTest, AMissingFileIsAUsageError) {
  const auto job = read_job(folder_ / "absent.toml");
  ASSERT_FALSE(job);
  EXPECT_EQ(job.error().code, Errc::kUsage);
}

}  // namespace
}  // namespace paddle::config
