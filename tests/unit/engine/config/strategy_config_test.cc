// Keys of [strategy] that are for trainers which talk to each other.
#include <gtest/gtest.h>

#include "engine/config/job_config.h"
#include "tests/support/temporary_folder.h"

namespace paddle::config {
namespace {

constexpr const char* kJob = R"([data]
train = "a.csv"
format = "csv"
columns = ["area", "price"]
[[data.slot]]
name = "area"
type = "float"
[[data.slot]]
name = "price"
type = "float"
[[layer]]
name = "estimate"
type = "fc"
input = ["area"]
size = 1
[[layer]]
name = "cost"
type = "squared_error"
input = ["estimate"]
label = "price"
[strategy]
)";

class StrategyConfigTest : public testing::Test {
 protected:
  Result<JobConfig> read(const std::string& keys) {
    return read_job(folder_.write("job.toml", kJob + keys));
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

}  // namespace
}  // namespace paddle::config
