// Layers of job.toml, and the attributes of their parameters.
#include <gtest/gtest.h>

#include "tests/unit/engine/config/job_config_fixture.h"

namespace paddle::config {
namespace {

TEST_F(JobConfigTest, ReadsTheKeysOfAnEmbedding) {
  const auto job =
      read_job(edited("size = 4", "size = 4\npooling = \"concat\"\nlength = 3\npadding_id = -1"));
  ASSERT_TRUE(job) << job.error().message;
  EXPECT_EQ(job->layers[0].pooling, "concat");
  EXPECT_EQ(job->layers[0].length, 3U);
  EXPECT_EQ(job->layers[0].padding_id, ~std::uint64_t{0});
  EXPECT_FALSE(job->layers[1].padding_id.has_value());
}

// Files of a megabyte whose every word is a mistake: one of them is shown, and briefly.
TEST_F(JobConfigTest, ManyWrongNamesMakeOneShortError) {
  const auto list = [](int count) {
    std::string text = "[";
    for (int i = 0; i < count; ++i) text += i > 0 ? ",\"?\"" : "\"?\"";
    return text + "]\n";
  };
  const std::string head = "[data]\ntrain = \"x\"\nformat = \"libsvm\"\n";
  std::string known;
  for (int i = 0; i < 4000; ++i)
    known += "[[layer]]\nname = \"" + std::string(60, 'n') + std::to_string(i) + "\"\n";
  std::string unlike =
      head + "[[layer]]\nname = \"c\"\ntype = \"softmax_cross_entropy\"\ninput = [\"?\"]\n";
  for (int i = 0; i < 9000; ++i) {
    unlike += "[[layer]]\nname = \"n" + std::to_string(i) + "\"\ninput = [\"?\"]\n";
  }
  std::string columns = "[data]\ntrain = \"x\"\nformat = \"csv\"\ncolumns = [";
  for (int i = 0; i < 8000; ++i) columns += "\"" + std::string(50, 'c') + std::to_string(i) + "\",";
  columns += "]\n[[data.slot]]\nname = \"a\"\ntype = \"id\"\ncolumns = ";
  std::string many = head;
  for (int i = 0; i < 10'001; ++i) many += "[[layer]]\n";
  for (const auto& [text, what] : std::vector<std::pair<std::string, std::string>>{
           {head + known + "[[layer]]\nname = \"z\"\ninput = " + list(99'000), ""},
           {unlike, "'?' is neither a data slot nor an earlier layer"},
           {columns + list(99'000), "'?' is not in [data] columns"},
           {columns + list(100'001), "at most 100000 are allowed"},
           {many, "there are 10001 [[layer]], but at most 10000 are allowed"}}) {
    const auto job = read_job(folder_.write("job.toml", text));
    ASSERT_FALSE(job);
    EXPECT_NE(job.error().message.find(what), std::string::npos)
        << job.error().message.substr(0, 300);
    EXPECT_LT(job.error().message.size() + job.error().hint.size(), 6000U);
  }
}

TEST_F(JobConfigTest, ReadsTheCountsOfASampledCost) {
  folder_.write("counts.txt", "the 900\ncat\t3\n<unk> 0\n");
  const std::string layer =
      "type = \"nce\"\nvocabulary = \"dictionary\"\nnegatives = 5\n"
      "distribution = \"unigram\"\n";
  const std::string before = "type = \"softmax_cross_entropy\"\n";
  const auto job = read_job(edited(before, layer + "counts = \"counts.txt\"\n"));
  ASSERT_TRUE(job) << job.error().message;
  EXPECT_EQ(job->layers[2].counts, (std::vector<std::uint64_t>{900, 3, 0}));
  EXPECT_EQ(job->layers[2].negatives, 5U);
  EXPECT_TRUE(job->layers[2].has_bias);
  EXPECT_EQ(mistake(before, layer), "job.toml:20:1: cost has no 'counts'");
  EXPECT_EQ(mistake(before, "type = \"nce\"\n"), "job.toml:20:1: cost has no 'vocabulary'");
  // As editors of other systems write it.
  for (const char* const text : {"\xef\xbb\xbf"
                                 "900\n3\n0\n",
                                 "the 900\r\ncat\t3\r\n<unk> 0\r\n", "the 900\rcat\t3\r<unk> 0\r",
                                 "the 900 \ncat 3\t\n<unk> 0  "}) {
    folder_.write("counts.txt", text);
    const auto same = read_job(edited(before, layer + "counts = \"counts.txt\"\n"));
    ASSERT_TRUE(same) << same.error().message;
    EXPECT_EQ(same->layers[2].counts, job->layers[2].counts) << text;
  }
  folder_.write("counts.txt", "the 900\ncat\n");
  const auto wrong = read_job(edited(before, layer + "counts = \"counts.txt\"\n"));
  ASSERT_FALSE(wrong);
  EXPECT_NE(wrong.error().message.find("counts.txt:2: the last word is not a whole number from 0"),
            std::string::npos)
      << wrong.error().message;
}

TEST_F(JobConfigTest, ReadsThePolicyOfASparseTable) {
  const auto job = read_job(edited("sparse = true",
                                   "sparse = true, entry_count = 3, entry_probability = 0.5, "
                                   "expire_passes = 4, bytes_max = 1000000, on_full = \"evict\""));
  ASSERT_TRUE(job) << job.error().message;
  const wire::TablePolicy& policy = job->layers[0].weight.table;
  EXPECT_EQ(policy.entry_count(), 3U);
  EXPECT_TRUE(policy.entry().empty());
  EXPECT_FALSE(policy.has_shrink());
  EXPECT_EQ(policy.entry_probability(), 0.5F);
  EXPECT_EQ(policy.expire_passes(), 4U);
  EXPECT_EQ(policy.bytes_max(), 1'000'000U);
  EXPECT_TRUE(policy.evict());
  EXPECT_FALSE(policy.draws_unseen());
  EXPECT_NE(mistake("sparse = true", "sparse = true, on_full = \"evict\"").find("needs bytes_max"),
            std::string::npos);
  EXPECT_NE(mistake("sparse = true", "expire_passes = 1").find("for sparse tables"),
            std::string::npos);
  const auto drawn = read_job(edited("sparse = true", "sparse = true, unseen = \"draw\""));
  ASSERT_TRUE(drawn) << drawn.error().message;
  EXPECT_TRUE(drawn->layers[0].weight.table.draws_unseen());
  EXPECT_NE(mistake("sparse = true", "unseen = \"draw\"").find("for sparse tables"),
            std::string::npos);
}

TEST_F(JobConfigTest, ReadsEntryOfSlotsAndShrink) {
  const auto job = read_job(
      edited("sparse = true",
             "sparse = true, entry_count = 3, entry = [{ slot = \"word0\", entry_count = 5 }, "
             "{ slot = \"word1\", entry_probability = 0.5 }], "
             "shrink = { label = \"next\", decay = 0.9, nonclick_coefficient = 0.2 }"));
  ASSERT_TRUE(job) << job.error().message;
  const wire::TablePolicy& policy = job->layers[0].weight.table;
  ASSERT_EQ(policy.entry_size(), 2);
  EXPECT_EQ(policy.entry(0).slot(), "word0");
  EXPECT_EQ(policy.entry(0).entry_count(), 5U);
  EXPECT_EQ(policy.entry(0).entry_probability(), 0.0F);
  EXPECT_EQ(policy.entry(1).slot(), "word1");
  EXPECT_EQ(policy.entry(1).entry_count(), 3U);
  EXPECT_EQ(policy.entry(1).entry_probability(), 0.5F);
  ASSERT_TRUE(policy.has_shrink());
  EXPECT_EQ(policy.shrink().label(), "next");
  EXPECT_EQ(policy.shrink().decay(), 0.9F);
  EXPECT_EQ(policy.shrink().threshold(), 0.8F);
  EXPECT_EQ(policy.shrink().nonclick_coefficient(), 0.2F);
  EXPECT_EQ(policy.shrink().click_coefficient(), 1.0F);
  EXPECT_NE(mistake("sparse = true", "sparse = true, shrink = { decay = 1 }").find("no 'label'"),
            std::string::npos);
  EXPECT_NE(mistake("sparse = true", "shrink = { label = 'next' }").find("for sparse tables"),
            std::string::npos);
  EXPECT_NE(mistake("sparse = true", "sparse = true, entry = [{}]").find("no 'slot'"),
            std::string::npos);
}

TEST_F(JobConfigTest, ReadsTheNumbersOfLayers) {
  const auto job = read_job(edited("bias_attributes = { learning_rate = 2.0 }",
                                   "epsilon = 0.25\nscale = 3\nrate = 0.5\nbias = false"));
  ASSERT_TRUE(job) << job.error().message;
  EXPECT_EQ(job->layers[1].epsilon, 0.25F);
  EXPECT_EQ(job->layers[1].scale, 3.0F);
  EXPECT_EQ(job->layers[1].rate, 0.5F);
  EXPECT_FALSE(job->layers[1].has_bias);
  EXPECT_NE(mistake("size = \"dictionary\"", "size = 4\nrate = 1").find("'rate' is 1"),
            std::string::npos);
}

TEST_F(JobConfigTest, ParametersHaveNamesOfFiles) {
  for (const char* name : {"a/b", ".", ".."}) {
    EXPECT_EQ(mistake("\"_proj\"", std::string("\"") + name + "\""),
              "job.toml:13:19: a parameter's name is the name of its file, without '/'")
        << name;
  }
}

TEST_F(JobConfigTest, ANetworkComputesACost) {
  EXPECT_EQ(mistake("type = \"softmax_cross_entropy\"\ninput = [\"output\"]\nlabel = \"next\"",
                    "type = \"add\"\ninput = [\"output\"]"),
            "job.toml:8:1: no layer computes a cost");
}

}  // namespace
}  // namespace paddle::config
