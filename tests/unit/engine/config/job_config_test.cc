#include "engine/config/job_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "base/named_rows.h"
#include "engine/config/layer_keys.h"
#include "tests/support/temporary_folder.h"

namespace paddle::config {
namespace {

constexpr const char* kJob = R"(name = "tiny"
seed = 5
[data]
train = "data/train.txt-*"
format = "ngram"
dictionary = "words.txt"
ngram = 3
[[layer]]
name = "e0"
type = "embedding"
input = ["word0"]
size = 4
weight = { name = "_proj", initial_std = 0.001, l2 = 0.0, sparse = true }
[[layer]]
name = "output"
type = "fc"
input = ["e0"]
size = "dictionary"
bias_attributes = { learning_rate = 2.0 }
[[layer]]
name = "cost"
type = "softmax_cross_entropy"
input = ["output"]
label = "next"
[optimizer]
method = "adagrad"
learning_rate = 3e-3
l2 = 8e-4
[strategy]
dense = "async"
[train]
passes = 2
)";

class JobConfigTest : public testing::Test {
 protected:
  JobConfigTest() { folder_.write("words.txt", "a\nb\n<unk>"); }

  std::string edited(const std::string& from, const std::string& to) {
    std::string text = kJob;
    text.replace(text.find(from), from.size(), to);
    return folder_.write("job.toml", text);
  }
  std::string mistake(const std::string& from, const std::string& to) {
    const auto job = read_job(edited(from, to));
    if (job) return "none";
    EXPECT_EQ(job.error().code, Errc::kUsage);
    const std::string& message = job.error().message;
    return message.substr(folder_.path().size() + 1,
                          message.find('\n') - folder_.path().size() - 1);
  }

  test::TemporaryFolder folder_;
};

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

TEST_F(JobConfigTest, ReadsHowProductsAreComputed) {
  EXPECT_FALSE(read_job(folder_.write("job.toml", kJob))->train.bfloat16);
  const auto job = read_job(edited("passes = 2", "passes = 2\ncompute = \"bf16\""));
  ASSERT_TRUE(job) << job.error().message;
  EXPECT_TRUE(job->train.bfloat16);
  EXPECT_NE(mistake("passes = 2", "passes = 2\ncompute = \"fp16\"").find("'bf16'"),
            std::string::npos);
}

TEST_F(JobConfigTest, ReadsTheKeysOfAnEmbedding) {
  const auto job =
      read_job(edited("size = 4", "size = 4\npooling = \"concat\"\nlength = 3\npadding_id = -1"));
  ASSERT_TRUE(job) << job.error().message;
  EXPECT_EQ(job->layers[0].pooling, "concat");
  EXPECT_EQ(job->layers[0].length, 3U);
  EXPECT_EQ(job->layers[0].padding_id, ~std::uint64_t{0});
  EXPECT_FALSE(job->layers[1].padding_id.has_value());
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
  folder_.write("counts.txt", "the 900\ncat\n");
  const auto wrong = read_job(edited(before, layer + "counts = \"counts.txt\"\n"));
  ASSERT_FALSE(wrong);
  EXPECT_NE(wrong.error().message.find("counts.txt:2: the last word is not a whole number from 0"),
            std::string::npos)
      << wrong.error().message;
}

TEST_F(JobConfigTest, ReadsEvaluators) {
  const auto job = read_job(edited("[optimizer]",
                                   "[[evaluator]]\ntype = \"classification_error\"\n"
                                   "input = \"output\"\nlabel = \"next\"\n"
                                   "[[evaluator]]\nname = \"ppl\"\ntype = \"perplexity\"\n"
                                   "input = \"cost\"\n[optimizer]"));
  ASSERT_TRUE(job) << job.error().message;
  ASSERT_EQ(job->evaluators.size(), 2U);
  EXPECT_EQ(job->evaluators[0].name, "classification_error");
  EXPECT_EQ(job->evaluators[0].inputs, std::vector<std::string>{"output"});
  EXPECT_EQ(job->evaluators[1].name, "ppl");
}

TEST_F(JobConfigTest, NamesMistakesOfEvaluators) {
  const auto wrong = [&](const std::string& keys) {
    return mistake("[optimizer]", "[[evaluator]]\n" + keys + "\n[optimizer]");
  };
  EXPECT_EQ(wrong("type = \"auk\"\ninput = \"output\"\nlabel = \"next\""),
            "job.toml:26:8: 'type' is 'auk', but must be one of 'auc', 'classification_error', "
            "'perplexity', 'precision_recall', 'rmse'; did you mean 'auc'?");
  EXPECT_EQ(wrong("type = \"auc\"\ninput = \"none\"\nlabel = \"next\""),
            "job.toml:27:9: 'none' is no layer");
  EXPECT_EQ(wrong("name = \"cost\"\ntype = \"auc\"\ninput = \"output\"\nlabel = \"next\""),
            "job.toml:26:8: 'cost' means something else in metrics.jsonl");
  EXPECT_EQ(wrong("type = \"auc\"\ninput = \"output\""), "job.toml:25:1: auc has no 'label'");
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
  EXPECT_NE(mistake("sparse = true", "sparse = true, on_full = \"evict\"").find("needs bytes_max"),
            std::string::npos);
  EXPECT_NE(mistake("sparse = true", "expire_passes = 1").find("for sparse tables"),
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

TEST_F(JobConfigTest, OverridesWin) {
  const auto job = read_job(folder_.write("job.toml", kJob), {"train.passes=7", "name=other"});
  ASSERT_TRUE(job) << job.error().message;
  EXPECT_EQ(job->train.passes, 7U);
  EXPECT_EQ(job->name, "other");
}

TEST_F(JobConfigTest, ReadsEveryKeyOfTraining) {
  const auto job = read_job(edited("passes = 2\n", R"(passes = 2
batch_size = 3
trainer_count = 4
log_period = 5
test_period = 6
saving_period = 7
full_snapshot_period = 8
snapshots_kept = 9
snapshot_copies = 2
shuffle_records = 10
)"));
  ASSERT_TRUE(job) << job.error().message;
  EXPECT_EQ(job->train.batch_size, 3U);
  EXPECT_EQ(job->train.trainer_count, 4U);
  EXPECT_EQ(job->train.log_period, 5U);
  EXPECT_EQ(job->train.test_period, 6U);
  EXPECT_EQ(job->train.saving_period, 7U);
  EXPECT_EQ(job->train.full_snapshot_period, 8U);
  EXPECT_EQ(job->train.snapshots_kept, 9U);
  EXPECT_EQ(job->train.snapshot_copies, 2U);
  EXPECT_EQ(job->train.shuffle_records, 10U);
  EXPECT_EQ(read_job(edited("passes = 2", "passes = 0"))->train.passes, 0U);
  EXPECT_FALSE(read_job(folder_.write("job.toml", kJob))->train.stop_on_divergence);
  EXPECT_FALSE(read_job(folder_.write("job.toml", kJob))->train.skips_not_finite);
  EXPECT_TRUE(read_job(edited("passes = 2", "passes = 2\non_not_finite = \"skip\""))
                  ->train.skips_not_finite);
  EXPECT_TRUE(read_job(edited("passes = 2", "passes = 2\non_divergence = \"stop\""))
                  ->train.stop_on_divergence);
  EXPECT_NE(mistake("passes = 2", "passes = 2\nsnapshot_copies = 3"), "");
  EXPECT_NE(mistake("passes = 2", "passes = 2\non_divergence = \"end\"").find("'stop'"),
            std::string::npos);
  for (const char* wrong : {"passes = 2\nbatch_size = 0", "passes = 2\nlog_period = 0",
                            "passes = 2\nfull_snapshot_period = 0"}) {
    EXPECT_NE(mistake("passes = 2", wrong).find("but must be from 1"), std::string::npos) << wrong;
  }
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

TEST_F(JobConfigTest, EvaluatorsHaveNamesOfTheirOwnAndAreFew) {
  const auto tables = [](int count, bool named) {
    std::string text;
    for (int i = 0; i < count; ++i) {
      text += "[[evaluator]]\ntype = \"auc\"\ninput = \"output\"\nlabel = \"next\"\n";
      if (named) text += "name = \"auc" + std::to_string(i) + "\"\n";
    }
    return text + "[optimizer]";
  };
  EXPECT_NE(mistake("[optimizer]", tables(2, false)).find("the name 'auc' is already taken"),
            std::string::npos);
  EXPECT_EQ(mistake("[optimizer]", tables(16, true)), "none");
  EXPECT_NE(mistake("[optimizer]", tables(17, true)).find("there are more than 16 evaluators"),
            std::string::npos);
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

TEST_F(JobConfigTest, ReadsPlacements) {
  const std::string head = "dense = \"async\"\n";
  auto job = read_job(edited(head, head + "merge = 'sum'\nslice_var_up = false\n"
                                          "placement = 'size_balanced'\n"));
  ASSERT_TRUE(job) << job.error().message;
  EXPECT_EQ(job->merge, wire::MERGE_SUM);
  EXPECT_EQ(job->min_block_size, 8192U);
  EXPECT_TRUE(job->partitioning.whole());
  EXPECT_EQ(job->partitioning.placement(), wire::PLACEMENT_SIZE_BALANCED);
  job = read_job(edited(head, head + "placement = 'hash_name'\nmin_block_size = 5\n"));
  ASSERT_TRUE(job) << job.error().message;
  EXPECT_EQ(job->partitioning.placement(), wire::PLACEMENT_HASH_NAME);
  EXPECT_FALSE(job->partitioning.whole());
  EXPECT_EQ(job->min_block_size, 5U);
  job = read_job(edited(head, head + "placement = 'explicit'\n[[strategy.place]]\n"
                                     "parameter = '_output.w0'\nport = 3\n"));
  ASSERT_TRUE(job) << job.error().message;
  ASSERT_EQ(job->partitioning.placed_size(), 1);
  EXPECT_EQ(job->partitioning.placed(0).port(), 3U);
  EXPECT_NE(mistake(head, head + "[[strategy.place]]\nparameter = 'x'\nport = 0\n")
                .find("needs placement = 'explicit'"),
            std::string::npos);
  EXPECT_NE(mistake(head, "placement = 'explicit'\n").find("needs [[strategy.place]]"),
            std::string::npos);
}

TEST_F(JobConfigTest, ReadsAsynchronousStrategies) {
  const std::string head = "dense = \"async\"\n";
  auto job = read_job(edited(head,
                             "dense = 'half_async'\nmax_merge_var_num = 4\n"
                             "send_queue_size = 2\nstaleness_max = 0\n"));
  ASSERT_TRUE(job) << job.error().message;
  EXPECT_EQ(job->dense_strategy, wire::STRATEGY_HALF_ASYNC);
  EXPECT_EQ(job->sparse_strategy, wire::STRATEGY_SYNC);
  EXPECT_EQ(job->max_merge, 4U);  // by Fluid's name
  EXPECT_EQ(job->send_queue_size, 2U);
  EXPECT_EQ(job->staleness_max, 0U);
  job = read_job(edited(head, head + "delay_compensation = 0.5\n"));
  ASSERT_TRUE(job) << job.error().message;
  EXPECT_EQ(job->delay_compensation, 0.5F);
  EXPECT_FALSE(job->staleness_max);
  const auto has = [&](const std::string& to, const char* expected) {
    EXPECT_NE(mistake(head, to).find(expected), std::string::npos) << to << mistake(head, to);
  };
  has(head + "max_merge = 2\n", "'max_merge' is for half_async");
  has("dense = 'half_async'\nmax_merge = 2\nmax_merge_var_num = 2\n", "by Fluid's name");
  has("dense = 'half_async'\ndelay_compensation = 1\n", "is for dense = 'async'");
  has("dense = 'sync'\nstaleness_max = 1\n", "is for async and half_async");
  has(head + "staleness_max = 1\nasync_lagged_grad_discard_ratio = 2\n", "give one");
}

TEST_F(JobConfigTest, ReadsLocalStrategies) {
  const std::string head = "dense = \"async\"\n";
  auto job = read_job(edited(head, "dense = 'geo'\nsparse = 'local_sgd'\ngeo_step = 7\n"));
  ASSERT_TRUE(job) << job.error().message;
  EXPECT_TRUE(job->is_local());
  EXPECT_EQ(job->update_frequency, 7U);
  const auto has = [&](const std::string& to, const char* expected) {
    EXPECT_NE(mistake(head, to).find(expected), std::string::npos) << to << mistake(head, to);
  };
  has(head + "update_frequency = 7\n", "is for geo and local_sgd");
  has("dense = 'geo'\nsparse = 'half_async'\n", "half_async does not go with geo or local_sgd");
  has("dense = 'local_sgd'\nsparse = 'sync'\n", "sync does not go with local_sgd: their rounds");
  has("dense = 'collective'\nsparse = 'local_sgd'\n", "collective does not go with local_sgd");
  has("dense = 'local_sgd'\nsparse = 'async'\nstaleness_max = 1\n",
      "staleness_max does not go with local_sgd");
  EXPECT_EQ(job->elastic_rate, 0.0F);
  const std::string elastic =
      "dense = 'local_sgd'\nsparse = 'async'\n"
      "center_parameter_update_method = 'elastic_average'\n";
  job = read_job(edited(head, elastic));
  ASSERT_TRUE(job) << job.error().message;
  EXPECT_EQ(job->elastic_rate, 0.9F);
  job = read_job(edited(head, elastic + "delta_add_rate = 0.5\n"));
  ASSERT_TRUE(job) << job.error().message;
  EXPECT_EQ(job->elastic_rate, 0.5F);
  has(elastic + "delta_add_rate = 0\n", "must be above 0");
  has("dense = 'local_sgd'\nsparse = 'async'\ndelta_add_rate = 1\n", "is for center_parameter");
  has("dense = 'geo'\ncenter_parameter_update_method = 'average'\n", "is for dense = 'local_sgd'");
}

TEST_F(JobConfigTest, ReadsCollectiveByAllOfItsNames) {
  const std::string head = "dense = \"async\"\n";
  for (const std::string name : {"collective", "nccl2", "allreduce"}) {
    const auto job = read_job(edited(head, "dense = '" + name + "'\n"));
    ASSERT_TRUE(job) << job.error().message;
    EXPECT_TRUE(job->is_collective()) << name;
    EXPECT_FALSE(job->is_local());
    EXPECT_NE(mistake(head, head + "sparse = '" + name + "'\n").find("'sparse'"), std::string::npos)
        << mistake(head, head + "sparse = '" + name + "'\n");
  }
  EXPECT_NE(mistake(head, "dense = 'collective'\nstaleness_max = 1\n").find("is for async"),
            std::string::npos);
  EXPECT_NE(mistake(head, "dense = 'collective'\nmax_merge = 2\n").find("is for half_async"),
            std::string::npos);
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
