// Tests that a saved model takes raw records: it prepares their numbers, fills missing ones in, and
// answers with the names of classes.
#include <filesystem>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "engine/model/description.h"
#include "engine/model/predictor.h"
#include "engine/model/records.h"
#include "engine/model/served_model.h"
#include "engine/snapshot/writer.h"
#include "tests/support/temporary_folder.h"

namespace paddle::serve {
namespace {

constexpr const char* kRawJob = R"([data]
train = "train.csv"
format = "csv"
columns = ["age", "fee", "kind"]
header = true
statistics = "constants.json"
[[data.slot]]
name = "numbers"
type = "float"
columns = ["age", "fee"]
missing = "mean"
missing_indicator = true
normalize = "standard"
[[data.slot]]
name = "kind"
type = "id"
labels = "learned"
[[layer]]
name = "out"
type = "fc"
input = ["numbers"]
size = 3
bias = false
[[layer]]
name = "cost"
type = "softmax_cross_entropy"
input = ["out"]
label = "kind"
)";

constexpr const char* kConstants = R"({"format":1,"records":4,"slots":[
{"name":"numbers","columns":[{"count":3,"missing":1,"mean":40,"fill":40,"filled_mean":40,"deviation":10,"minimum":30,"maximum":50,"edges":[],"quantile_error":0},
 {"count":4,"missing":0,"mean":2,"fill":2,"filled_mean":2,"deviation":0.5,"minimum":1,"maximum":3,"edges":[],"quantile_error":0}]},
{"name":"kind","labels":["a, b","c","d"]}]}
)";

class PreparedRecordsTest : public testing::Test {
 protected:
  // The outputs of the network are the prepared age, the prepared fee, and 4 times its indicator.
  PreparedRecordsTest() {
    folder_.write("w/job.toml", kRawJob);
    folder_.write("w/constants.json", kConstants);
    const auto job = config::resolve_job(folder_ / "w/job.toml");
    EXPECT_TRUE(job) << job.error().message;
    const auto files = inference::describe_model(*job, folder_ / "w/job.toml");
    EXPECT_TRUE(files) << files.error().message;
    const auto predictor =
        inference::Predictor::build(job->config, "", inference::LineFormat::kCsv);
    EXPECT_TRUE(predictor) << predictor.error().message;
    snapshot::SnapshotInfo info;
    info.optimizer.set_method("sgd");
    info.optimizer.set_learning_rate(1);
    auto writer = snapshot::SnapshotWriter::create(snapshot_, info);
    EXPECT_TRUE(writer);
    for (const snapshot::ModelFile& file : *files) EXPECT_TRUE(writer->add_model_file(file));
    EXPECT_EQ(predictor->parameters().size(), 1U);
    const std::vector<float> weights{1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 4};
    EXPECT_TRUE(writer->add_dense(predictor->parameters().front(), weights, {}, 1));
    EXPECT_TRUE(writer->finish());
    std::filesystem::remove_all(folder_ / "w");
  }
  // The answer to a request, or its error.
  std::string answer(std::string_view request, RecordFormat format = RecordFormat::kJson,
                     const std::string& layer = "out") {
    const auto model = Model::load(snapshot_, {.layer = layer, .source = {}});
    EXPECT_TRUE(model) << model.error().message;
    Model::Scratch scratch;
    Work work;
    auto replies = (*model)->predict({&request, 1}, format, scratch, work);
    return replies.at(0) ? replies[0]->text : replies[0].error().message;
  }
  std::string predict(const std::string& records, inference::LineFormat format) {
    folder_.write("new.csv", records);
    const auto reader = snapshot::SnapshotReader::open(snapshot_);
    const auto description = inference::read_description(*reader, {});
    EXPECT_TRUE(description) << description.error().message;
    std::string lines;
    const auto result = inference::predict_records(
        *reader, *description,
        {.folder = folder_.path(), .glob = "new.csv", .layer = "", .format = format},
        [&lines](std::string_view text) {
          lines += text;
          return Status();
        });
    EXPECT_TRUE(result) << result.error().message;
    return lines;
  }

  test::TemporaryFolder folder_;
  const std::string snapshot_ = folder_ / "pass-00000";
};

TEST_F(PreparedRecordsTest, RecordsAreRawAndMayLackNumbers) {
  for (const char* const record :
       {R"({"age":50,"fee":1})", R"({"numbers":[50,1]})", R"({"fee":1,"age":50,"kind":"c"})"})
    EXPECT_EQ(answer(record), "{\"values\":[1,-2,0]}\n") << record;
  for (const char* const record :
       {R"({"age":50})", R"({"age":50,"fee":null})", R"({"numbers":[50,null]})",
        R"({"numbers":[50,"NA"]})", R"({"age":50,"fee":""})"})
    EXPECT_EQ(answer(record), "{\"values\":[1,0,4]}\n") << record;
  for (const char* const record : {"{}", R"({"numbers":null})", R"({"kind":"d"})"})
    EXPECT_EQ(answer(record), "{\"values\":[0,0,4]}\n") << record;
  EXPECT_EQ(answer("50,1,c\n,,d\n", RecordFormat::kText), "1,-2,0\n0,0,4\n");
  EXPECT_EQ(answer(R"({"age":"old"})"), "line 1: 'age' must be a number");
}

TEST_F(PreparedRecordsTest, NamedClassesHaveTheirProbabilities) {
  const std::string csv = predict("age,fee,kind\n50,2,c\n40,,d\n", inference::LineFormat::kCsv);
  EXPECT_EQ(csv,
            "label,class,\"a, b\",c,d\n"
            "c,\"a, b\",0.5761169,0.21194157,0.21194157\n"
            "d,d,0.01766842,0.01766842,0.9646631\n");
  const std::string json = predict("age,fee,kind\n40,,d\n", inference::LineFormat::kJson);
  EXPECT_EQ(json,
            "{\"label\":\"d\",\"class\":\"d\",\"score\":0.9646631,\"probabilities\":"
            "{\"a, b\":0.01766842,\"c\":0.01766842,\"d\":0.9646631}}\n");
  EXPECT_EQ(answer("40,,d\n", RecordFormat::kText, ""), "d,0.01766842,0.01766842,0.9646631\n");
  EXPECT_TRUE(answer("{}", RecordFormat::kJson, "").starts_with(R"({"class":"d","score":0.9646)"));
}

TEST_F(PreparedRecordsTest, TheDescriptionIsThatOfRawRecords) {
  const auto reader = snapshot::SnapshotReader::open(snapshot_);
  const auto slots = reader->read_model_file("model/slots.json");
  ASSERT_TRUE(slots && *slots);
  EXPECT_EQ(**slots,
            R"({"format":"csv","slots":[{"name":"numbers","type":"float","width":2,)"
            R"("columns":["age","fee"]},{"name":"kind","type":"id","labels":["a, b","c","d"],)"
            R"("columns":["kind"]}]})"
            "\n");
  const auto kept = reader->read_model_file("model/statistics.json");
  ASSERT_TRUE(kept && *kept);
  EXPECT_EQ(**kept, kConstants);
}

TEST_F(PreparedRecordsTest, AJobWithoutItsStatisticsIsRefused) {
  folder_.write("job.toml", kRawJob);
  const auto reader = snapshot::SnapshotReader::open(snapshot_);
  inference::DescriptionSource source;
  source.config = folder_ / "job.toml";
  source.overrides = {"data.statistics="};
  const auto refused = inference::read_description(*reader, source);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::kUsage);
  EXPECT_NE(refused.error().message.find("names no [data] statistics"), std::string::npos);
}

}  // namespace
}  // namespace paddle::serve
