#include "engine/config/data_config.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "engine/config/job_config.h"
#include "engine/config/sections.h"
#include "tests/support/temporary_folder.h"

namespace paddle::config {
namespace {

class DataConfigTest : public testing::Test {
 protected:
  // Reads a [data] section with these lines after its train.
  DataConfig read(const std::string& text) {
    TomlTable root = *TomlTable::parse("[data]\ntrain = \"x\"\n" + text, "job.toml");
    DataConfig data = read_data(root.table("data"), folder_.path());
    const Status status = root.finish();
    mistake_ = status ? "none" : status.error().message;
    mistake_ = mistake_.substr(0, mistake_.find('\n'));
    return data;
  }
  std::string mistake(const std::string& text) {
    read(text);
    return mistake_;
  }
  std::string slots(const std::string& text) {
    std::string all;
    for (const SlotConfig& slot : data_slots(read(text))) {
      all += slot.name + (slot.width > 0 ? ":" + std::to_string(slot.width) : "") +
             (slot.many ? "*" : "") + (slot.weighted ? "w" : "") +
             (slot.hashed ? "#" + std::to_string(slot.buckets) : "") + " ";
    }
    EXPECT_EQ(mistake_, "none");
    return all;
  }

  test::TemporaryFolder folder_;
  std::string mistake_;
};

TEST_F(DataConfigTest, EachFormatHasItsSlots) {
  folder_.write("words", "a\n<unk>\n");
  EXPECT_EQ(slots("format = 'ngram'\nngram = 3\ndictionary = 'words'"), "word0 word1 next ");
  EXPECT_EQ(slots("format = 'bow'\ndictionary = 'words'"), "words* label ");
  EXPECT_EQ(slots("format = 'libsvm'"), "label features*w ");
  EXPECT_EQ(slots("format = 'libsvm'\nlabel = 'float'"), "label:1 features*w ");
  const std::string criteo = slots("format = 'criteo'\nbuckets = 1000");
  EXPECT_TRUE(criteo.starts_with("label dense:13 C1#1000 C2#1000 ")) << criteo;
  EXPECT_TRUE(criteo.ends_with(" C26#1000 "));
  EXPECT_EQ(slots(R"(format = 'multislot'
slot = [{name = 'click', type = 'id'}, {name = 'old', type = 'ids', used = false},
        {name = 'price', type = 'float', width = 3}, {name = 'ads', type = 'ids'}])"),
            "click price:3 ads* ");
  EXPECT_EQ(slots(R"(format = 'csv'
columns = ['click', 'age', 'fee', 'site', 'page', 'tags']
delimiter = "\t"
header = true
[[data.slot]]
name = 'click'
type = 'id'
[[data.slot]]
name = 'numbers'
type = 'float'
columns = ['fee', 'age']
[[data.slot]]
name = 'places'
type = 'hash'
columns = ['site', 'page']
[[data.slot]]
name = 'tags'
type = 'hash'
separator = '|')"),
            "click numbers:2 places*#0 tags*#0 ");
}

TEST_F(DataConfigTest, ReadingOptions) {
  const DataConfig data = read(R"(format = 'libsvm'
pipe_command = ['python3', 'reader.py']
pipe_timeout = 5
threads = 4
files_at_once = 3
on_bad_record = 'skip'
global_shuffle = true)");
  EXPECT_EQ(mistake_, "none");
  EXPECT_EQ(data.pipe_command, (std::vector<std::string>{"python3", "reader.py"}));
  EXPECT_EQ(data.pipe_timeout.count(), 5);
  EXPECT_EQ(data.threads, 4U);
  EXPECT_EQ(data.files_at_once, 3U);
  EXPECT_TRUE(data.skip_bad_records);
  EXPECT_TRUE(data.global_shuffle);
  EXPECT_FALSE(read("format = 'libsvm'").skip_bad_records);
}

TEST_F(DataConfigTest, ACacheHasABoundAndNoGlobalShuffle) {
  EXPECT_FALSE(read("format = 'libsvm'").cache);
  const DataConfig data = read("format = 'libsvm'\ncache = true\ncache_bytes_max = 100");
  EXPECT_EQ(mistake_, "none");
  EXPECT_TRUE(data.cache);
  EXPECT_EQ(data.cache_bytes_max, 100U);
  EXPECT_EQ(mistake("format = 'libsvm'\ncache = true\nglobal_shuffle = true"),
            "job.toml:4:9: 'cache' cannot be combined with global_shuffle, which distributes "
            "records again in each pass");
  EXPECT_EQ(mistake("format = 'libsvm'\ncache_bytes_max = 100"),
            "job.toml:4:19: 'cache_bytes_max' needs cache = true");
}

TEST_F(DataConfigTest, APartOfTheTrainingRecordsMayBeHeldOut) {
  const std::string csv =
      "format = 'csv'\ncolumns = ['a', 'user']\nslot = [{name = 'a', type = 'id'}]\n";
  const DataConfig data = read(csv + "test_fraction = 0.25\nsplit_by = 'user'");
  EXPECT_EQ(mistake_, "none");
  EXPECT_EQ(data.test_fraction, 0.25);
  EXPECT_EQ(data.split_by, "user");
  EXPECT_EQ(read(csv).test_fraction, 0);
  const std::string jsonl = "format = 'jsonl'\nslot = [{name = 'a', type = 'id'}]\n";
  EXPECT_EQ(mistake(jsonl + "test_fraction = 0.1\nsplit_by = 'any'"), "none");
  // As --set data.test_fraction=0 leaves it.
  EXPECT_EQ(mistake(jsonl + "test_fraction = 0\nsplit_by = 'any'\ntest = 'y'"), "none");

  EXPECT_EQ(mistake(csv + "test = 'y'\ntest_fraction = 0.1"),
            "job.toml:7:17: 'test_fraction' cannot be combined with 'test'");
  EXPECT_EQ(mistake(csv + "test_fraction = 1"),
            "job.toml:6:17: 'test_fraction' is 1, which leaves no record for training");
  EXPECT_EQ(mistake(csv + "test_fraction = -0.1"),
            "job.toml:6:17: 'test_fraction' is -0.1, but must be from 0 to 1");
  EXPECT_EQ(mistake(csv + "split_by = 'user'"),
            "job.toml:6:12: 'split_by' needs 'test_fraction', the part that is held out");
  EXPECT_EQ(mistake(csv + "test_fraction = 0.1\nsplit_by = 'usr'"),
            "job.toml:7:12: 'usr' is not in [data] columns");
  EXPECT_EQ(mistake("format = 'libsvm'\ntest_fraction = 0.1\nsplit_by = 'user'"),
            "job.toml:5:12: 'split_by' names a column of csv or a key of jsonl, but the format is "
            "'libsvm'");
}

TEST_F(DataConfigTest, WeightsAreOneFloat) {
  const std::string csv =
      "format = 'csv'\ncolumns = ['a', 'w']\nslot = [{name = 'a', type = 'id'}, {name = 'w', type "
      "= "
      "'float'}, {name = 'both', type = 'float', columns = ['w', 'w']}]\n";
  const DataConfig data = read(csv + "weight = 'w'");
  EXPECT_EQ(mistake_, "none");
  EXPECT_FALSE(data_slots(data)[0].is_weight);
  EXPECT_TRUE(data_slots(data)[1].is_weight);
  EXPECT_FALSE(data_slots(read(csv))[1].is_weight);
  EXPECT_EQ(mistake(csv + "weight = 'v'"), "job.toml:6:10: there is no slot 'v'");
  EXPECT_EQ(mistake(csv + "weight = 'a'"), "job.toml:6:10: the slot 'a' is not one float");
  EXPECT_EQ(mistake(csv + "weight = 'both'"), "job.toml:6:10: the slot 'both' is not one float");
}

TEST_F(DataConfigTest, SlotsOfJsonLinesAreDeclared) {
  EXPECT_EQ(slots(R"(format = 'jsonl'
buckets = 10
slot = [{name = 'click', type = 'id'}, {name = 'seen', type = 'ids'},
        {name = 'site', type = 'hash'}, {name = 'words', type = 'hashes'},
        {name = 'price', type = 'float', width = 3}])"),
            "click seen* site#10 words*#10 price:3 ");
  EXPECT_EQ(mistake("format = 'jsonl'"), "job.toml:1:1: format 'jsonl' has no slots of its own");
}

TEST_F(DataConfigTest, SlotsOfNpzAreArrays) {
  EXPECT_EQ(slots(R"(format = 'npz'
slot = [{name = 'click', type = 'id'}, {name = 'seen', type = 'ids'},
        {name = 'price', type = 'float', width = 3}])"),
            "click seen* price:3 ");
  EXPECT_EQ(mistake("format = 'npz'"), "job.toml:1:1: format 'npz' has no slots of its own");
  EXPECT_EQ(mistake("format = 'npz'\npipe_command = ['cat']\nslot = [{name = 'a', type = 'id'}]"),
            "job.toml:4:16: 'pipe_command' prints lines, but format 'npz' is binary");
}

TEST_F(DataConfigTest, ACommandListsAndReadsObjects) {
  const std::string format = "format = 'libsvm'\n";
  EXPECT_EQ(read(format + "command = ['sh', 'objects.sh']").command,
            (std::vector<std::string>{"sh", "objects.sh"}));
  EXPECT_TRUE(read(format + "command = []").command.empty());
  EXPECT_EQ(mistake_, "none");
  EXPECT_EQ(mistake(format + "command = ['']"), "job.toml:4:11: 'command' names no program");
  EXPECT_EQ(mistake(format + "command = ['a']\npipe_command = ['cat']"),
            "job.toml:5:16: 'pipe_command' cannot be combined with 'command'");
}

TEST_F(DataConfigTest, ADictionaryMayBeAnywhereButNotEmpty) {
  const test::TemporaryFolder elsewhere;
  const std::string path = elsewhere.write("words", "a\nb\n<unk>\n");
  EXPECT_EQ(read("format = 'bow'\ndictionary = '" + path + "'").dictionary_size, 3U);
  EXPECT_EQ(mistake_, "none");
  for (const char* const text : {"\xef\xbb\xbf", "\xef\xbb\xbfword\n<unk>", "word\r<unk>\r"}) {
    const std::string foreign = elsewhere.write("foreign", text);
    const bool is_empty = std::string_view(text).size() == 3;
    EXPECT_EQ(read("format = 'bow'\ndictionary = '" + foreign + "'").dictionary_size,
              is_empty ? 0U : 2U);
    EXPECT_EQ(mistake_ == "none", !is_empty);
  }
  folder_.write("words", "");
  EXPECT_EQ(mistake("format = 'bow'\ndictionary = 'words'"),
            "job.toml:4:14: " + (folder_ / "words") + " is empty");
}

TEST_F(DataConfigTest, BucketsAreTheModulusOfIds) {
  for (const char* format : {"libsvm", "criteo"}) {
    EXPECT_EQ(read(std::string("format = '") + format + "'").buckets, 0U);
    EXPECT_EQ(read(std::string("format = '") + format + "'\nbuckets = 1000").buckets, 1000U);
  }
  EXPECT_EQ(mistake("format = 'libsvm'\nbuckets = -1"),
            "job.toml:4:11: 'buckets' is -1, but must be at least 0");
  EXPECT_EQ(mistake("format = 'bow'\nbuckets = 5"),
            "job.toml:4:11: 'buckets' is for format = \"libsvm\" or \"csv\" or \"jsonl\" or "
            "\"criteo\"; this job has \"bow\"");
}

TEST_F(DataConfigTest, NamesValuesOutOfRange) {
  const std::string format = "format = 'libsvm'\n";
  EXPECT_EQ(mistake(format + "threads = 65"),
            "job.toml:4:11: 'threads' is 65, but must be from 1 to 64");
  EXPECT_EQ(mistake(format + "threads = 0"),
            "job.toml:4:11: 'threads' is 0, but must be from 1 to 64");
  EXPECT_EQ(mistake(format + "files_at_once = 0"),
            "job.toml:4:17: 'files_at_once' is 0, but must be from 1 to 64");
  EXPECT_EQ(mistake(format + "pipe_timeout = 0"),
            "job.toml:4:16: 'pipe_timeout' is 0, but must be from 1 to 604800");
  EXPECT_EQ(mistake(format + "pipe_command = ['cat', \"a\\u0000b\"]"),
            "job.toml:4:16: an argument holds a NUL byte");
  EXPECT_EQ(mistake("format = 'ngram'\ndictionary = 'words'\nngram = 1").substr(0, 14),
            "job.toml:4:14:");
  folder_.write("words", "<unk>\n");
  EXPECT_EQ(mistake("format = 'ngram'\ndictionary = 'words'\nngram = 1"),
            "job.toml:5:9: 'ngram' is 1, but must be from 2 to 64");
  EXPECT_EQ(mistake("format = 'multislot'\nslot = [{name = 'a', type = 'float', width = 0}]"),
            "job.toml:4:46: 'width' is 0, but must be from 1 to 65536");
}

TEST_F(DataConfigTest, ASeparatorIsForIdsOfOneColumn) {
  const std::string csv = "format = 'csv'\ncolumns = ['a', 'b']\n";
  EXPECT_EQ(
      mistake(csv + "slot = [{name = 'a', type = 'float', separator = '|'}]"),
      "job.toml:5:50: 'separator' applies to slots of ids; a slot of floats reads several columns");
  EXPECT_EQ(mistake(csv + "slot = [{name = 'a', type = 'id', columns = []}]"),
            "job.toml:5:45: 'columns' is empty");
  EXPECT_EQ(mistake(csv + "slot = [{name = 'a', type = 'id', separator = \"\"}]"),
            "job.toml:5:47: 'separator' must be one ASCII character, not a quote or a line end");
}

// The keys of a format mean nothing to another, and the layers' inputs are its slots.
TEST_F(DataConfigTest, AnUnknownFormatIsToldBeforeWhatFollowsFromIt) {
  const std::string told =
      "'format' is 'json', but must be one of 'ngram', 'bow', 'multislot', 'libsvm', 'csv', "
      "'criteo', 'jsonl', 'npz'; did you mean 'jsonl'?";
  EXPECT_EQ(mistake("buckets = 10\nformat = 'json'"), "job.toml:4:10: " + told);
  const std::string job = folder_.write("job.toml", R"([data]
train = "x"
format = "libsvm"
buckets = 1000
[[layer]]
name = "output"
type = "fc"
input = "features"
size = 1
)");
  const auto read = read_job(job, {"data.format=json"});
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().message, "--set data.format=json: " + told);
}

TEST_F(DataConfigTest, NamesMistakes) {
  EXPECT_EQ(mistake("format = 'bow'"), "job.toml:1:1: format 'bow' has no 'dictionary'");
  EXPECT_EQ(mistake("format = 'multislot'"),
            "job.toml:1:1: format 'multislot' has no slots of its own");
  EXPECT_EQ(mistake("format = 'csv'"), "job.toml:1:1: format 'csv' has no 'columns'");
  EXPECT_EQ(mistake("format = 'libsvm'\nlabel = 'text'"),
            "job.toml:4:9: 'label' is 'text', but must be one of 'id', 'float'");
  EXPECT_EQ(mistake("format = 'libsvm'\nngram = 3"),
            "job.toml:4:9: 'ngram' is for format = \"ngram\"; this job has \"libsvm\"");
  EXPECT_EQ(mistake("format = 'csv'\ncolumns = ['a', 'a']\nslot = [{name = 'a', type = 'id'}]"),
            "job.toml:4:11: the column 'a' is named twice");
  EXPECT_EQ(mistake("format = 'csv'\ncolumns = ['a']\nslot = [{name = 'b', type = 'id'}]"),
            "job.toml:5:17: 'b' is not in [data] columns");
  EXPECT_EQ(mistake("format = 'csv'\ncolumns = ['a']\ndelimiter = '||'\n"
                    "slot = [{name = 'a', type = 'id'}]"),
            "job.toml:5:13: 'delimiter' must be one ASCII character, not a quote or a line end");
  EXPECT_EQ(mistake("format = 'multislot'\nslot = [{name = 'a', type = 'id'},"
                    "{name = 'a', type = 'hash'}]"),
            "job.toml:4:43: the name 'a' is already taken");
  EXPECT_EQ(mistake("format = 'libsvm'\npipe_command = []"),
            "job.toml:4:16: 'pipe_command' names no program");
}

TEST_F(DataConfigTest, LabelsNameTheClassesOfASlot) {
  const std::string csv = "format = 'csv'\ncolumns = ['y']\n[[data.slot]]\nname = 'y'\n";
  EXPECT_EQ(read(csv + "type = 'id'\nlabels = ['setosa', 'virginica']").slots.at(0).labels,
            (std::vector<std::string>{"setosa", "virginica"}));
  EXPECT_EQ(mistake_, "none");
  EXPECT_EQ(data_slots(read(csv + "type = 'id'\nlabels = [1, 2, 'three']")).at(0).labels,
            (std::vector<std::string>{"1", "2", "three"}));
  EXPECT_EQ(mistake_, "none");
  EXPECT_EQ(mistake(csv + "type = 'id'\nlabels = []"), "job.toml:8:10: 'labels' is empty");
  EXPECT_EQ(mistake(csv + "type = 'id'\nlabels = ['a', 'b', 'a']"),
            "job.toml:8:10: the label 'a' occurs twice");
  EXPECT_EQ(mistake(csv + "type = 'id'\nlabels = ['a', '']"), "job.toml:8:10: a label is empty");
  EXPECT_NE(mistake(csv + "type = 'id'\nlabels = ['a', 1.5]").find("strings and whole numbers"),
            std::string::npos);
  EXPECT_EQ(mistake(csv + "type = 'hash'\nlabels = ['a', 'b']"),
            "job.toml:8:10: 'labels' applies only to slots of ids");
}

TEST_F(DataConfigTest, FormatsWithALabelOfTheirOwnHaveLabelsToo) {
  folder_.write("words", "a\n<unk>\n");
  for (const char* const format :
       {"format = 'libsvm'\n", "format = 'criteo'\n", "format = 'bow'\ndictionary = 'words'\n"}) {
    const auto slots = data_slots(read(std::string(format) + "labels = ['no', 'yes']"));
    EXPECT_EQ(mistake_, "none");
    const auto label = std::ranges::find(slots, "label", &SlotConfig::name);
    ASSERT_NE(label, slots.end());
    EXPECT_EQ(label->labels, (std::vector<std::string>{"no", "yes"}));
  }
  EXPECT_EQ(mistake("format = 'libsvm'\nlabel = 'float'\nlabels = ['a']"),
            "job.toml:5:10: 'labels' cannot be combined with label = \"float\"");
  EXPECT_NE(
      mistake("format = 'ngram'\ndictionary = 'words'\nlabels = ['a']").find("'labels' is for"),
      std::string::npos);
}

TEST_F(DataConfigTest, OnlyCsvTrims) {
  const std::string csv = "format = 'csv'\ncolumns = ['y']\nslot = [{name = 'y', type = 'id'}]\n";
  EXPECT_TRUE(read(csv).trim);
  EXPECT_FALSE(read(csv + "trim = false").trim);
  EXPECT_EQ(mistake_, "none");
  EXPECT_NE(mistake("format = 'libsvm'\ntrim = false").find("'trim' is for"), std::string::npos);
}

}  // namespace
}  // namespace paddle::config
