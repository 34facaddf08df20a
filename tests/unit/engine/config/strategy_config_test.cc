// Keys of [strategy] that are for trainers which talk to each other.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "engine/config/job_config.h"
#include "tests/support/price_network.h"
#include "tests/support/temporary_folder.h"

namespace paddle::config {
namespace {

const std::string kStrategyJob = std::string(R"([data]
train = "a.csv"
format = "csv"
columns = ["area", "price"]
)") + test::kPriceNetwork + "[strategy]\n";

class StrategyConfigTest : public testing::Test {
 protected:
  Result<JobConfig> read(const std::string& keys) {
    return read_job(folder_.write("job.toml", kStrategyJob + keys));
  }
  // "job.toml:22:8: 'uneven' ..."
  std::string mistake(const std::string& keys) {
    const auto job = read(keys);
    if (job) return "none";
    EXPECT_EQ(job.error().code, Errc::kUsage);
    const std::string& message = job.error().message;
    const std::size_t begin = folder_.path().size() + 1;
    return message.substr(begin, message.find('\n') - begin);
  }

  test::TemporaryFolder folder_;
};

TEST_F(StrategyConfigTest, LocalSgdIsForDenseParameters) {
  const auto job = read("dense = 'local_sgd'\n");
  ASSERT_TRUE(job) << job.error().message;
  EXPECT_EQ(job->dense_strategy, wire::STRATEGY_LOCAL_SGD);
  EXPECT_TRUE(job->has_group());
  const auto sparse = read("dense = 'local_sgd'\nsparse = 'local_sgd'\n");
  ASSERT_FALSE(sparse);
  EXPECT_NE(sparse.error().message.find("job.toml:23:10: 'local_sgd' is for dense parameters only"),
            std::string::npos)
      << sparse.error().message;
  EXPECT_NE(sparse.error().hint.find("write dense = \"geo\" and sparse = \"geo\""),
            std::string::npos)
      << sparse.error().hint;
}

TEST_F(StrategyConfigTest, KeysOfModesThatDoNotExistAreRefusedWithWhatToWrite) {
  for (const auto& [line, hint] :
       {std::pair{"center_parameter_update_method = 'elastic_average'\n",
                  "remove it: dense = \"local_sgd\" sets every copy to the mean of all"},
        std::pair{"delta_add_rate = 0.5\n",
                  "remove it: dense = \"local_sgd\" sets every copy to the mean of all"},
        std::pair{"delay_compensation = 1\n",
                  "remove it; staleness_max limits how old an asynchronous gradient can be"}}) {
    const std::string text = line;
    const std::string key = text.substr(0, text.find(' '));
    const auto job = read("dense = 'async'\n" + text);
    ASSERT_FALSE(job) << key;
    EXPECT_NE(job.error().message.find(fmt::format("job.toml:23:{}: unknown key '{}': there is no ",
                                                   key.size() + 4, key)),
              std::string::npos)
        << job.error().message;
    EXPECT_EQ(job.error().hint, hint) << key;
  }
}

TEST_F(StrategyConfigTest, UnevenDataIsJoinedUnlessTheJobSaysMore) {
  const auto plain = read("");
  ASSERT_TRUE(plain) << plain.error().message;
  EXPECT_EQ(plain->uneven, Uneven::kJoin);
  const std::string head = "dense = \"collective\"\n";
  for (const auto& [name, value] :
       {std::pair{"join", Uneven::kJoin}, std::pair{"drop", Uneven::kDrop},
        std::pair{"pad", Uneven::kPad}}) {
    const auto job = read(head + "uneven = \"" + name + "\"\n");
    ASSERT_TRUE(job) << job.error().message;
    EXPECT_EQ(job->uneven, value) << name;
  }
}

TEST_F(StrategyConfigTest, UnevenIsForTrainersThatTalk) {
  EXPECT_EQ(mistake("uneven = \"drop\"\n"), "job.toml:22:10: 'uneven' is for dense = 'collective'");
  EXPECT_EQ(mistake("dense = \"async\"\nuneven = \"join\"\n"),
            "job.toml:23:10: 'uneven' is for dense = 'collective'");
  const std::string wrong = mistake("dense = \"collective\"\nuneven = \"dorp\"\n");
  EXPECT_EQ(wrong.find("job.toml:23:10: 'uneven' is "), 0U) << wrong;
  EXPECT_NE(wrong.find("drop"), std::string::npos) << wrong;
}

TEST_F(StrategyConfigTest, TheWireIsForTrainersThatTalk) {
  const std::string head = "dense = \"collective\"\n";
  for (const char* const plain : {"", "wire = \"float32\"\n"}) {
    const auto job = read(head + plain);
    ASSERT_TRUE(job) << job.error().message;
    EXPECT_FALSE(job->bf16_wire);
  }
  const auto job = read(head + "wire = \"bf16\"\n");
  ASSERT_TRUE(job) << job.error().message;
  EXPECT_TRUE(job->bf16_wire);
  EXPECT_EQ(mistake("wire = \"bf16\"\n"), "job.toml:22:8: 'wire' is for dense = 'collective'");
  for (const char* const dense : {"sync", "async", "half_async", "geo", "local_sgd"}) {
    EXPECT_EQ(mistake("dense = \"" + std::string(dense) + "\"\nwire = \"bf16\"\n"),
              "job.toml:23:8: 'wire' is for dense = 'collective'");
  }
  EXPECT_EQ(mistake(head + "wire = \"bf16\"\nnode_groups = true\n"),
            "job.toml:23:8: wire = 'bf16' cannot be combined with 'node_groups'");
  const std::string wrong = mistake(head + "wire = \"fp16\"\n");
  EXPECT_EQ(wrong.find("job.toml:23:8: 'wire' is "), 0U) << wrong;
  EXPECT_NE(wrong.find("bf16"), std::string::npos) << wrong;
}

TEST_F(StrategyConfigTest, LanesAreForTrainersThatTalk) {
  const auto plain = read("dense = 'collective'\n");
  ASSERT_TRUE(plain) << plain.error().message;
  EXPECT_EQ(plain->lanes, 1U);
  for (const char* const dense : {"collective", "local_sgd"}) {
    const auto job = read(std::string("dense = '") + dense + "'\nlanes = 16\n");
    ASSERT_TRUE(job) << job.error().message;
    EXPECT_EQ(job->lanes, 16U);
  }
  EXPECT_EQ(mistake("lanes = 2\n"),
            "job.toml:22:9: 'lanes' is for dense = 'collective' and 'local_sgd'");
  EXPECT_EQ(mistake("node_groups = true\nlanes = 2\n"),
            "job.toml:23:9: 'lanes' is for dense = 'collective' and 'local_sgd'");
  for (const char* const wrong : {"0", "17"}) {
    const std::string said = mistake(std::string("dense = 'collective'\nlanes = ") + wrong + "\n");
    EXPECT_EQ(said.find("job.toml:23:9: 'lanes' "), 0U) << said;
  }
}

TEST_F(StrategyConfigTest, NodeGroupsAreForRoundsOnPserversAndForCollective) {
  const auto plain = read("");
  ASSERT_TRUE(plain) << plain.error().message;
  EXPECT_FALSE(plain->node_groups);
  for (const char* const key : {"node_groups", "use_hierarchical_allreduce"}) {
    const auto job = read(std::string(key) + " = true\nsparse = \"async\"\n");
    ASSERT_TRUE(job) << job.error().message;
    EXPECT_TRUE(job->node_groups);
    EXPECT_TRUE(job->has_node_groups());
    const auto collective = read("dense = \"collective\"\n" + std::string(key) + " = true\n");
    ASSERT_TRUE(collective) << collective.error().message;
    EXPECT_TRUE(collective->node_groups);
    EXPECT_FALSE(collective->has_node_groups());
    EXPECT_EQ(mistake("dense = \"async\"\n" + std::string(key) + " = true\n"),
              fmt::format("job.toml:23:{}: '{}' is for dense = 'sync' and 'collective'",
                          std::string(key).size() + 4, key));
  }
  EXPECT_EQ(mistake("node_groups = true\nuse_hierarchical_allreduce = true\n"),
            "job.toml:23:30: 'use_hierarchical_allreduce' is Fluid's name of 'node_groups', which "
            "is set too");
}

}  // namespace
}  // namespace paddle::config
