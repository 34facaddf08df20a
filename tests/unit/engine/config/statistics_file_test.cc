// Tests of the keys of a slot by which its numbers are prepared, and of the file of their
// constants.
#include "engine/config/statistics_file.h"

#include <gtest/gtest.h>

#include "engine/config/job_config.h"
#include "engine/config/sections.h"
#include "tests/support/temporary_folder.h"

namespace paddle::config {
namespace {

constexpr const char* kStatistics = R"({"format":1,"records":4,"slots":[
{"name":"x","columns":[{"count":3,"missing":1,"mean":2,"fill":2,"filled_mean":2,"deviation":0.5,"minimum":1,"maximum":3,"edges":[],"quantile_error":0},
 {"count":4,"missing":0,"mean":-1,"fill":-1,"filled_mean":-1,"deviation":0,"minimum":-1,"maximum":-1,"edges":[],"quantile_error":0}]},
{"name":"y","labels":["a \"b\"","c"]}]}
)";

class StatisticsFileTest : public testing::Test {
 protected:
  // Reads a csv job with a slot "x" of two columns of floats, to which `keys` are added, and the
  // lines `more` of [data].
  DataConfig read(const std::string& keys, const std::string& more = "",
                  const std::string& format = "csv") {
    const std::string columns = format == "csv" ? "columns = ['a', 'b', 'y']\n" : "";
    const std::string of_slot = format == "csv" ? "columns = ['a', 'b']\n" : "width = 2\n";
    TomlTable root =
        *TomlTable::parse("[data]\ntrain = 'x'\nformat = '" + format + "'\n" + columns + more +
                              "[[data.slot]]\nname = 'y'\ntype = 'id'\n" + label_ +
                              "[[data.slot]]\nname = 'x'\ntype = 'float'\n" + of_slot + keys,
                          "job.toml");
    DataConfig data = read_data(root.table("data"), folder_.path());
    const Status status = root.finish();
    mistake_ = status ? "none" : status.error().message;
    mistake_ = mistake_.substr(0, mistake_.find('\n'));
    hint_ = status ? "" : status.error().hint;
    return data;
  }
  std::string mistake(const std::string& keys, const std::string& more = "",
                      const std::string& format = "csv") {
    read(keys, more, format);
    return mistake_;
  }
  // The mistake of a file with this text, without its path.
  std::string wrong_file(const std::string& text, const std::string& keys) {
    folder_.write("s.json", text);
    std::string found = mistake(keys, "statistics = 's.json'\n");
    const std::size_t at = found.find(folder_.path());
    if (at != std::string::npos) found.erase(at, folder_.path().size() + 1);
    return found;
  }
  static std::string edited(const std::string& from, const std::string& to) {
    std::string text = kStatistics;
    return text.replace(text.find(from), from.size(), to);
  }

  test::TemporaryFolder folder_;
  std::string label_;  // keys of the slot "y"
  std::string mistake_, hint_;
};

TEST_F(StatisticsFileTest, SlotsAreRawForTheParserAndPreparedForLayers) {
  const DataConfig plain = read("");
  ASSERT_EQ(mistake_, "none");
  EXPECT_FALSE(plain.slots[1].is_prepared());
  EXPECT_EQ(data_slots(plain).at(1).width, 2U);

  const DataConfig marked = read("missing = 0.5\nmissing_indicator = true\nnormalize = 'log'");
  ASSERT_EQ(mistake_, "none");
  EXPECT_EQ(raw_slots(marked).at(1).width, 2U);
  EXPECT_EQ(data_slots(marked).at(1).width, 4U);
  EXPECT_FALSE(lacks_statistics(marked));
  ASSERT_EQ(marked.slots[1].fits.size(), 2U);
  EXPECT_EQ(marked.slots[1].fits[1].fill, 0.5);

  const DataConfig buckets = read("bucket = [-1, 0, 2.5]");
  ASSERT_EQ(mistake_, "none");
  EXPECT_EQ(raw_slots(buckets).at(1).width, 2U);
  EXPECT_EQ(data_slots(buckets).at(1).width, 0U);
  EXPECT_TRUE(data_slots(buckets).at(1).many);
  EXPECT_EQ(buckets.slots[1].buckets(), 4U);
  EXPECT_EQ(buckets.slots[1].fits.at(0).edges, (std::vector<double>{-1, 0, 2.5}));
  EXPECT_FALSE(lacks_statistics(buckets));
}

TEST_F(StatisticsFileTest, SaysWhichSlotsNeedStatistics) {
  for (const char* keys : {"normalize = 'standard'", "normalize = 'min_max'", "missing = 'mean'",
                           "bucket = 4", "missing = 1\nnormalize = 'standard'"}) {
    EXPECT_TRUE(lacks_statistics(read(keys))) << keys;
    EXPECT_EQ(mistake_, "none") << keys;
  }
  for (const char* keys : {"", "normalize = 'log'", "missing = 'refuse'",
                           "missing_indicator = true", "bucket = [1]"}) {
    EXPECT_FALSE(lacks_statistics(read(keys))) << keys;
    EXPECT_EQ(mistake_, "none") << keys;
  }
  label_ = "labels = 'learned'\n";
  EXPECT_TRUE(lacks_statistics(read("")));
  EXPECT_EQ(mistake_, "none");
}

TEST_F(StatisticsFileTest, NamesMistakesOfTheKeys) {
  const std::string at = "job.toml:12:";
  EXPECT_EQ(
      mistake("normalize = 'standart'"),
      at +
          "13: 'normalize' is 'standart', but must be one of 'none', 'standard', 'min_max', 'log'; "
          "did you mean 'standard'?");
  EXPECT_EQ(mistake("missing = 'median'"),
            at + "11: 'missing' is 'median', but must be one of 'mean', 'refuse'; did you mean "
                 "'mean'?");
  EXPECT_EQ(mistake("missing = true"), at + "11: 'missing' must be a number, not true or false");
  EXPECT_EQ(mistake("missing = 1e39").substr(0, 30), at + "11: 'missing' is 1");
  EXPECT_EQ(mistake("bucket = 1"), at + "10: 'bucket' is 1, but must be from 2 to 65536");
  EXPECT_EQ(mistake("bucket = 'ten'"), at + "10: 'bucket' must be an integer, not a string");
  EXPECT_EQ(mistake("bucket = []"), at + "10: 'bucket' has no edges");
  EXPECT_EQ(mistake("bucket = [2, 1]"), at + "10: the edge 1 is not above the one before it");
  EXPECT_EQ(mistake("bucket = [1, 1e39]"), at + "10: the edge 1e+39 is not a finite float32");
  EXPECT_EQ(mistake("bucket = [1, 'a']"),
            at + "14: 'bucket' must be an array of numbers, not a string");
  EXPECT_EQ(mistake("bucket = 4\nnormalize = 'none'"), "none") << "it is the default";
  EXPECT_EQ(mistake("bucket = 4\nnormalize = 'log'"),
            "job.toml:13:13: 'normalize' cannot be combined with 'bucket'");
  EXPECT_EQ(mistake("bucket = 4\nmissing_indicator = true"),
            "job.toml:13:21: 'missing_indicator' cannot be combined with 'bucket'");
  EXPECT_EQ(mistake("missing = 'refuse'\nmissing_indicator = true"),
            "job.toml:13:21: 'missing_indicator' cannot be combined with missing = \"refuse\"");
  label_ = "normalize = 'log'\n";
  EXPECT_EQ(mistake(""), "job.toml:8:13: 'normalize' applies only to slots of floats");
  EXPECT_EQ(hint_, "set type = \"float\"");
}

TEST_F(StatisticsFileTest, AJobCannotAskForEndlessConstants) {
  std::string edges = "bucket = [0";
  for (int i = 1; i < 100; ++i) edges += ", " + std::to_string(i);
  edges += "]\n";
  std::string text = "[data]\ntrain = 'x'\nformat = 'jsonl'\n";
  for (const char* name : {"a", "b"}) {
    text += std::string("[[data.slot]]\nname = '") + name + "'\ntype = 'float'\nwidth = 40000\n" +
            edges;
  }
  TomlTable root = *TomlTable::parse(text, "job.toml");
  read_data(root.table("data"), folder_.path());
  const Status status = root.finish();
  ASSERT_FALSE(status);
  EXPECT_TRUE(status.error().message.starts_with(
      "job.toml:13:10: the numbers up to this slot are prepared by 8080000 constants, but at most "
      "4194304 are allowed"))
      << status.error().message;
}

TEST_F(StatisticsFileTest, NamesMistakesOfLearnedLabels) {
  label_ = "labels = 'learnt'\n";
  EXPECT_EQ(mistake(""),
            "job.toml:8:10: 'labels' is 'learnt', but must be one of 'learned'; did you mean "
            "'learned'?");
  EXPECT_EQ(mistake("labels = 'learned'").substr(0, 15), "job.toml:8:10: ");
  label_ = "";
  EXPECT_EQ(mistake("labels = 'learned'"),
            "job.toml:12:10: labels = \"learned\" applies only to slots of type \"id\"");
  label_ = "labels = 'learned'\n";
  EXPECT_EQ(mistake("", "", "npz"),
            "job.toml:7:10: labels = \"learned\" needs texts, but format 'npz' has numbers");
  EXPECT_EQ(mistake("", "", "jsonl"), "none");
}

TEST_F(StatisticsFileTest, TheFileGivesConstantsAndLabels) {
  folder_.write("s.json", kStatistics);
  label_ = "labels = 'learned'\n";
  const DataConfig data =
      read("missing = 'mean'\nnormalize = 'standard'", "statistics = 's.json'\n");
  ASSERT_EQ(mistake_, "none");
  EXPECT_EQ(data.statistics, "s.json");
  EXPECT_FALSE(lacks_statistics(data));
  ASSERT_EQ(data.slots[1].fits.size(), 2U);
  EXPECT_EQ(data.slots[1].fits[0].fill, 2);
  EXPECT_EQ(data.slots[1].fits[0].offset, 2);
  EXPECT_EQ(data.slots[1].fits[0].scale, 2);
  EXPECT_EQ(data.slots[1].fits[1].scale, 1) << "a constant column stays as it is";
  EXPECT_EQ(data.slots[0].labels, (std::vector<std::string>{"a \"b\"", "c"}));
  EXPECT_EQ(data_slots(data).at(0).labels, data.slots[0].labels);

  const DataConfig scaled =
      read("missing = 'mean'\nnormalize = 'min_max'", "statistics = 's.json'\n");
  EXPECT_EQ(scaled.slots[1].fits.at(0).offset, 1);
  EXPECT_EQ(scaled.slots[1].fits.at(0).scale, 0.5);
}

TEST_F(StatisticsFileTest, EdgesOfTheFileAreDoublesAndEdgesOfTheJobFloats) {
  std::string text =
      edited(R"("edges":[],"quantile_error":0},)", R"("edges":[0.1,0.7,1.5],"quantile_error":0},)");
  text.replace(text.find(R"("columns")"), 0, R"("bucket":4,)");
  for (const std::string fill : {"\"fill\":2", "\"fill\":-1"})
    text.replace(text.find(fill), fill.size(), "\"fill\":0");
  folder_.write("s.json", text);
  const DataConfig data = read("bucket = 4", "statistics = 's.json'\n");
  ASSERT_EQ(mistake_, "none");
  EXPECT_EQ(data.slots[1].fits.at(0).edges, (std::vector<double>{0.1, 0.7, 1.5}));
  const std::string at = "job.toml:5:14: s.json: slot 'x': ";
  EXPECT_EQ(wrong_file(text, "bucket = 3"),
            at + "it was made with bucket = 4, but the slot has bucket = 3");
  EXPECT_EQ(wrong_file(text, "bucket = 20"),
            at + "it was made with bucket = 4, but the slot has bucket = 20");
  EXPECT_EQ(wrong_file(text, "normalize = 'min_max'"),
            at + "it was made with bucket = 4, but the slot has no bucket = N");
  EXPECT_EQ(wrong_file(text.replace(text.find("\"bucket\":4"), 10, "\"bucket\":3"), "bucket = 3"),
            at + "'edges' must be shorter than 'bucket', which is 3");
  EXPECT_EQ(wrong_file(text.replace(text.find("\"bucket\":3"), 10, "\"bucket\":1"), "bucket = 3"),
            at + "'bucket' must be a whole number from 2 to 65536");
  // The number 0.7 in a file is the float32 0.7F, and belongs to the bucket above the edge 0.7.
  EXPECT_EQ(read("bucket = [0.7]").slots[1].fits.at(0).edges, std::vector<double>{0.7F});
}

TEST_F(StatisticsFileTest, NamesWhatDoesNotFit) {
  const std::string keys = "missing = 'mean'\nnormalize = 'standard'";
  EXPECT_EQ(mistake(keys, "statistics = 'none.json'\n").substr(0, 15), "job.toml:5:14: ");
  EXPECT_NE(hint_.find("paddle statistics"), std::string::npos);
  const std::string at = "job.toml:5:14: s.json: ";
  EXPECT_EQ(wrong_file("{", keys).substr(0, at.size()), at);
  EXPECT_EQ(wrong_file(edited("\"format\":1", "\"format\":9"), keys),
            at + "its format is 9, but this program reads 1");
  EXPECT_EQ(wrong_file(edited("\"mean\":2", "\"mean\":null"), keys),
            at + "slot 'x': 'mean' must be a finite number");
  EXPECT_EQ(wrong_file(edited("\"x\"", "\"z\""), keys), at + "it has no statistics of slot 'x'");
  EXPECT_NE(hint_.find("paddle statistics"), std::string::npos);
  EXPECT_EQ(wrong_file("paddle statistics part 1\nabc", keys),
            at + "it is the part of one trainer, not the statistics of all");
  EXPECT_EQ(hint_, "merge the parts: paddle statistics --merge --output=FILE PART...");
  EXPECT_EQ(wrong_file(edited("\"edges\":[]", "\"edges\":[2,1]"), keys),
            at + "slot 'x': 'edges' must be a list of ascending numbers");
  EXPECT_EQ(wrong_file(edited("\"count\":3", "\"count\":0"), keys),
            at + "slot 'x': column 'a': no record has a number, so that there is no mean");
  EXPECT_EQ(wrong_file(kStatistics, "missing = 7\nnormalize = 'standard'"),
            at + "slot 'x': column 'a': it was made with another key 'missing': 2 is in place of a "
                 "missing number, not 7");
  EXPECT_EQ(wrong_file(edited("\"deviation\":0.5", "\"deviation\":-0.5"), keys),
            at + "slot 'x': 'deviation' must be a number from 0");
  const std::string one_column = R"({"format":1,"records":4,"slots":[{"name":"x","columns":[]}]})";
  EXPECT_EQ(wrong_file(one_column, keys), at + "slot 'x': it has 0 columns, but the slot has 2");
  label_ = "labels = 'learned'\n";
  EXPECT_EQ(wrong_file(edited("\"c\"", "\"a \\\"b\\\"\""), keys),
            at + "slot 'y': 'labels' must be a list of different texts, sorted by their bytes");
  EXPECT_EQ(wrong_file(edited("\"c\"", "\"A\""), keys),
            at + "slot 'y': 'labels' must be a list of different texts, sorted by their bytes");
}

// Columns in another order have the same number of statistics.
TEST_F(StatisticsFileTest, KnowsTheColumnsOfCsv) {
  const std::string named = R"({"format":1,"records":4,"slots":[
{"name":"x","columns":[{"name":"a","count":3,"missing":1,"mean":2,"fill":0,"filled_mean":2,"deviation":0.5,"minimum":1,"maximum":3,"edges":[],"quantile_error":0},
 {"name":"b","count":4,"missing":0,"mean":-1,"fill":0,"filled_mean":-1,"deviation":0,"minimum":-1,"maximum":-1,"edges":[],"quantile_error":0}]}]}
)";
  const auto parsed = parse_statistics(named);
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(parsed->slots.at(0).columns.at(1).name, "b");
  EXPECT_EQ(statistics_text(*parsed), named);
  EXPECT_EQ(wrong_file(named, "normalize = 'min_max'"), "none");
  std::string other = named;
  other.replace(other.find("\"a\""), 3, "\"b\"");
  EXPECT_EQ(wrong_file(other, "normalize = 'min_max'"),
            "job.toml:5:14: s.json: slot 'x': column 1 is 'b', but in the slot it is 'a'");
}

TEST_F(StatisticsFileTest, WrittenTextIsReadBack) {
  DataStatistics statistics{.records = 3, .slots = {}};
  statistics.slots.push_back({.name = "a \"quoted\" name",
                              .columns = {{.name = "a \"quoted\" column",
                                           .count = 1U << 31U,
                                           .missing = 2,
                                           .mean = 0.1,
                                           .fill = -1.0 / 3,
                                           .filled_mean = 1e300,
                                           .deviation = 5e-324,
                                           .minimum = -0.0,
                                           .maximum = 123456789.123456789,
                                           .edges = {-1e30, 0.30000000000000004},
                                           .quantile_error = 1.0 / 128},
                                          {}},
                              .labels = {},
                              .bucket_count = 3});
  statistics.slots.push_back({.name = "y", .labels = {"\x01", "a\nb", "\xc3\xa9"}});
  const std::string text = statistics_text(statistics);
  const auto back = parse_statistics(text);
  ASSERT_TRUE(back) << back.error().message << text;
  EXPECT_EQ(*back, statistics);
  EXPECT_EQ(statistics_text(*parse_statistics(kStatistics)), kStatistics);
  EXPECT_EQ(statistics_text({}), "{\"format\":1,\"records\":0,\"slots\":[]}\n");
}

constexpr const char* kPreparedJob = R"([data]
train = "x"
format = "jsonl"
weight = "w"
[[data.slot]]
name = "x"
type = "float"
width = 2
bucket = 3
[[data.slot]]
name = "y"
type = "float"
[[data.slot]]
name = "w"
type = "float"
[[data.slot]]
name = "kind"
type = "id"
labels = ["a", "b", "c"]
[[layer]]
name = "rows"
type = "embedding"
input = ["x", "kind"]
size = 2
pooling = "sum"
vocabulary = 6
[[layer]]
name = "out"
type = "fc"
input = ["rows"]
size = 1
[[layer]]
name = "cost"
type = "binary_cross_entropy"
input = ["out"]
label = "y"
[[evaluator]]
type = "auc"
input = "out"
label = "y"
)";

class PreparedJob : public StatisticsFileTest {
 protected:
  // The mistake of the job after one text was replaced by another.
  std::string mistake_with(const std::string& from, const std::string& to) {
    std::string text = kPreparedJob;
    text.replace(text.find(from), from.size(), to);
    folder_.write("job.toml", text);
    const auto job = read_job(folder_ / "job.toml");
    hint_ = job ? "" : job.error().hint;
    if (job) return "none";
    const std::string& message = job.error().message;
    return message.substr(message.find("job.toml"));
  }
};

// A cost of a label that was scaled, or of a weight, would be another cost.
TEST_F(PreparedJob, LabelsAndWeightsAreReadAsTheyAre) {
  const std::string y = "name = \"y\"\ntype = \"float\"", w = "name = \"w\"\ntype = \"float\"";
  ASSERT_EQ(mistake_with("", ""), "none");
  EXPECT_EQ(mistake_with(y, y + "\nmissing = \"refuse\""), "none");
  for (const std::string key :
       {"normalize = \"standard\"", "normalize = \"log\"", "missing = \"mean\"", "missing = 0"}) {
    const std::string name = key.substr(0, key.find(' '));
    EXPECT_TRUE(mistake_with(y, y + "\n" + key)
                    .starts_with("job.toml:13:" + std::to_string(name.size() + 4) + ": '" + name +
                                 "' changes slot 'y', which is the label of layer 'cost'"))
        << mistake_with(y, y + "\n" + key);
    EXPECT_TRUE(hint_.starts_with("remove the key: labels and weights are read as they are"));
    EXPECT_TRUE(mistake_with(w, w + "\n" + key)
                    .starts_with("job.toml:16:" + std::to_string(name.size() + 4) + ": '" + name +
                                 "' changes slot 'w', which is the weight of [data]"))
        << mistake_with(w, w + "\n" + key);
  }
  EXPECT_TRUE(
      mistake_with(y, y + "\nbucket = [1]").starts_with("job.toml:13:10: 'bucket' changes"));
  EXPECT_TRUE(mistake_with(y, y + "\nmissing_indicator = true")
                  .starts_with("job.toml:13:21: 'missing_indicator' changes slot 'y'"));
}

TEST_F(PreparedJob, ATableHasARowForEachBucketAndLabel) {
  const std::string fewer = mistake_with("vocabulary = 6", "vocabulary = 5");
  EXPECT_TRUE(
      fewer.starts_with("job.toml:26:14: the vocabulary is 5, but slot 'x' has 6 ids: 2 "
                        "columns of 3 buckets"))
      << fewer;
  EXPECT_EQ(hint_, "set vocabulary = 6");
  const std::string more = mistake_with(R"("c"])", R"("c", "d", "e", "f", "g"])");
  EXPECT_TRUE(more.starts_with("job.toml:26:14: the vocabulary is 6, but slot 'kind' has 7 labels"))
      << more;
  EXPECT_EQ(hint_, "set vocabulary = 7");
}

TEST_F(StatisticsFileTest, BelongsToTheModel) {
  folder_.write("s.json", kStatistics);
  folder_.write("job.toml", R"([data]
train = "x"
format = "csv"
columns = ["a", "b", "y"]
statistics = "s.json"
[[data.slot]]
name = "x"
type = "float"
columns = ["a", "b"]
missing = "mean"
[[data.slot]]
name = "y"
type = "id"
[[layer]]
name = "out"
type = "fc"
input = ["x"]
size = 2
[[layer]]
name = "cost"
type = "softmax_cross_entropy"
input = ["out"]
label = "y"
)");
  const auto job = resolve_job(folder_ / "job.toml");
  ASSERT_TRUE(job) << job.error().message;
  const auto described = describe_job(job->text, folder_ / "job.toml");
  ASSERT_TRUE(described);
  ASSERT_EQ(described->files.size(), 1U);
  EXPECT_EQ(described->files[0].name, "statistics.json");
  EXPECT_EQ(described->files[0].path, folder_ / "s.json");
  folder_.write("model/job.toml", described->text);
  folder_.write("model/statistics.json", kStatistics);
  const auto saved = read_job(folder_ / "model/job.toml");
  ASSERT_TRUE(saved) << saved.error().message;
  EXPECT_EQ(saved->data.slots[0].fits.at(0).fill, 2);
  // An empty override reads the job without the file.
  const auto without = read_job(folder_ / "job.toml", {"data.statistics="});
  ASSERT_TRUE(without) << without.error().message;
  EXPECT_TRUE(lacks_statistics(without->data));
}

}  // namespace
}  // namespace paddle::config
