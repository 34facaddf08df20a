// Training from other formats, and from memory: the values of a job that parses its files.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/result.h"
#include "tests/e2e/local_training_job.h"

namespace paddle::test {
namespace {

const std::vector<std::string> kShuffled{"--set=train.shuffle_records=100"};

// Lines of multislot, a number of values before each slot's, as JSON.
std::string as_json(const std::string& text) {
  std::istringstream in(text);
  std::string out;
  for (std::string user, item, other, price, second, click, bought, count;
       in >> count >> user >> count >> item >> other >> count >> price >> second >> count >>
       click >> count >> bought;) {
    out += fmt::format(
        R"({{"click": {}, "unused": null, "items": [{}, {}], "user": {}, "price": [{}, {}], "bought": {}}})"
        "\n",
        click == "1", item, other, user, price, second, bought);
  }
  return out;
}

TEST(DataJob, JsonLinesHaveTheValuesOfMultislot) {
  Job job;
  job.write_clicks(1, 600);
  const std::string text = TemporaryFolder::read(job.folder() / "data/train.txt-00000");
  job.folder().write("data/train.jsonl", as_json(text));
  ASSERT_TRUE(job.run_local("multislot", kShuffled));
  ASSERT_TRUE(job.run_local(
      "jsonl", with(kShuffled, {"--set=data.format=jsonl", "--set=data.train=data/train.jsonl"})));
  EXPECT_FALSE(job.values("jsonl", 2).empty());
  EXPECT_TRUE(job.values("jsonl", 2) == job.values("multislot", 2));
}

TEST(DataJob, PassesFromMemoryHaveTheValuesOfFiles) {
  Job job;
  job.write_clicks(2, 600);
  ASSERT_TRUE(job.run_local("files", kShuffled));
  ASSERT_TRUE(job.run_local("memory", with(kShuffled, {"--set=data.cache=true"})));
  EXPECT_TRUE(job.values("memory", 2) == job.values("files", 2));
}

TEST(DataJob, RecordsAboveTheBoundOfTheCacheEndTheJobByName) {
  Job job;
  job.write_clicks(1, 600);
  Process local =
      job.start_local("bounded", {"--set=data.cache=true", "--set=data.cache_bytes_max=5000"});
  EXPECT_EQ(local.wait(), static_cast<int>(Errc::kResource));
  EXPECT_NE(local.output().find("over the limit of 5000 bytes\nhint: raise [data] cache_bytes_max"),
            std::string::npos)
      << local.output();
}

}  // namespace
}  // namespace paddle::test
