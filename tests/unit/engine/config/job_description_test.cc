#include <gtest/gtest.h>

#include "engine/config/job_config.h"
#include "tests/support/temporary_folder.h"

namespace paddle::config {
namespace {

constexpr const char* kDescribedJob = R"(# words
name = "words"

[data]
train = "data/train-*"
format = "ngram"
dictionary = "data/words.txt"
ngram = 2

[[layer]]
name = "word"
type = "embedding"
input = ["word0"]
size = 4
weight = { initial_std = 0.001, sparse = true }

[[layer]]
name = "before"
type = "negative_sampling"
input = ["word"]
label = "next"
vocabulary = "dictionary"
distribution = "unigram"
counts = "data/counts.txt"

[[layer]]
name = "after"
type = "nce"
input = ["word"]
label = "word0"
vocabulary = "dictionary"
distribution = "unigram"
counts = "data/other.txt"

[[layer]]
name = "again"
type = "nce"
input = ["word"]
label = "word0"
vocabulary = "dictionary"
distribution = "unigram"
counts = "data/counts.txt"

[optimizer]
learning_rate = 3e-3

[train]
passes = 3
)";

class JobDescriptionTest : public testing::Test {
 protected:
  JobDescriptionTest() {
    folder_.write("w/job.toml", kDescribedJob);
    folder_.write("w/data/words.txt", "a\nb\n<unk>\n");
    folder_.write("w/data/counts.txt", "a 5\nb 6\n<unk> 0\n");
    folder_.write("w/data/other.txt", "1\n2\n3\n");
  }
  Result<JobDescription> described_job(const std::vector<std::string>& overrides = {}) {
    const std::string path = folder_ / "w/job.toml";
    PADDLE_TRY(const ResolvedJob job, resolve_job(path, overrides));
    return describe_job(job.text, path);
  }

  test::TemporaryFolder folder_;
};

TEST_F(JobDescriptionTest, IsTheSameJobWithoutItsWorkspace) {
  const auto described = described_job({"train.passes=7", "name=other", "seed=9"});
  ASSERT_TRUE(described) << described.error().message;
  ASSERT_EQ(described->files.size(), 3U);
  EXPECT_EQ(described->files[0].name, "dictionary.txt");
  EXPECT_EQ(described->files[0].path, folder_ / "w/data/words.txt");
  EXPECT_EQ(described->files[1].name, "counts.txt");
  EXPECT_EQ(described->files[2].name, "counts-1.txt");
  EXPECT_EQ(described->files[2].path, folder_ / "w/data/other.txt");

  folder_.write("model/job.toml", described->text);
  for (const JobFile& file : described->files)
    folder_.write("model/" + file.name, test::TemporaryFolder::read(file.path));
  const auto job = read_job(folder_ / "model/job.toml");
  ASSERT_TRUE(job) << job.error().message << described->text;
  EXPECT_EQ(job->name, "other");
  EXPECT_EQ(job->seed, 9U);
  EXPECT_EQ(job->train.passes, 7U);
  EXPECT_EQ(job->data.train, "data/train-*");
  EXPECT_EQ(job->data.dictionary_size, 3U);
  EXPECT_EQ(job->optimizer.learning_rate(), 3e-3F);
  ASSERT_EQ(job->layers.size(), 4U);
  EXPECT_EQ(job->layers[0].weight.initial_std, 0.001F);
  EXPECT_EQ(job->layers[1].counts, (std::vector<std::uint64_t>{5, 6, 0}));
  EXPECT_EQ(job->layers[2].counts, (std::vector<std::uint64_t>{1, 2, 3}));
  EXPECT_EQ(job->layers[3].counts, job->layers[1].counts);
}

TEST_F(JobDescriptionTest, OfADescriptionIsItself) {
  const auto described = described_job();
  ASSERT_TRUE(described);
  const auto again = describe_job(described->text, folder_ / "model/job.toml");
  ASSERT_TRUE(again);
  EXPECT_EQ(again->text, described->text);
}

TEST_F(JobDescriptionTest, FilesMayStandElsewhere) {
  folder_.write("model/job.toml", described_job()->text);
  const auto missing = read_job(folder_ / "model/job.toml");
  ASSERT_FALSE(missing);
  const auto job = read_job(folder_ / "model/job.toml", {},
                            {{"dictionary.txt", folder_ / "w/data/words.txt"},
                             {"counts.txt", folder_ / "w/data/counts.txt"},
                             {"counts-1.txt", folder_ / "w/data/other.txt"}});
  ASSERT_TRUE(job) << job.error().message;
  EXPECT_EQ(job->data.dictionary_size, 3U);
  EXPECT_EQ(job->layers[2].counts, (std::vector<std::uint64_t>{1, 2, 3}));
}

TEST_F(JobDescriptionTest, AStringOfSeveralLinesIsReadBack) {
  const std::vector<std::string> program{"python3", "-c", "def f():\n  '''doc'''\n", "\"\"\"\n\\"};
  std::string job = kDescribedJob;
  job.insert(job.find("ngram = 2"),
             R"(pipe_command = ["python3", "-c", "def f():\n  '''doc'''\n", "\"\"\"\n\\"])"
             "\n");
  folder_.write("w/job.toml", job);
  const auto described = described_job();
  ASSERT_TRUE(described) << described.error().message;
  folder_.write("model/job.toml", described->text);
  for (const JobFile& file : described->files)
    folder_.write("model/" + file.name, test::TemporaryFolder::read(file.path));
  const auto read = read_job(folder_ / "model/job.toml");
  ASSERT_TRUE(read) << read.error().message << described->text;
  EXPECT_EQ(read->data.pipe_command, program);
}

}  // namespace
}  // namespace paddle::config
