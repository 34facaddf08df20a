#include "engine/model/description.h"

#include <gtest/gtest.h>

#include "engine/snapshot/writer.h"
#include "tests/support/temporary_folder.h"

namespace paddle::inference {
namespace {

constexpr const char* kJob = R"([data]
train = "train.txt"
format = "bow"
dictionary = "words.txt"
[[layer]]
name = "score"
type = "embedding"
input = ["words"]
pooling = "sum"
size = 2
weight = { sparse = true }
[[layer]]
name = "cost"
type = "softmax_cross_entropy"
input = ["score"]
label = "label"
[train]
passes = 3
)";
constexpr const char* kWords = "good\nbad\n<unk>\n";

class DescriptionTest : public testing::Test {
 protected:
  DescriptionTest() {
    folder_.write("w/job.toml", kJob);
    folder_.write("w/words.txt", kWords);
  }

  snapshot::SnapshotReader save(const std::vector<snapshot::ModelFile>& files) {
    snapshot::SnapshotInfo info;
    info.optimizer.set_method("sgd");
    info.optimizer.set_learning_rate(1);
    auto writer = snapshot::SnapshotWriter::create(folder_ / "pass-00000", info);
    EXPECT_TRUE(writer);
    for (const snapshot::ModelFile& file : files) EXPECT_TRUE(writer->add_model_file(file));
    EXPECT_TRUE(writer->finish());
    auto reader = snapshot::SnapshotReader::open(folder_ / "pass-00000");
    EXPECT_TRUE(reader);
    return *std::move(reader);
  }
  config::ResolvedJob resolved(const std::vector<std::string>& overrides) {
    auto job = config::resolve_job(folder_ / "w/job.toml", overrides);
    EXPECT_TRUE(job) << job.error().message;
    return *std::move(job);
  }
  std::vector<snapshot::ModelFile> describe(std::size_t bytes_max = 1U << 20U) {
    const auto files =
        describe_model(resolved({"train.passes=7"}), folder_ / "w/job.toml", bytes_max);
    EXPECT_TRUE(files) << files.error().message;
    return *files;
  }
  std::string content(const std::string& file) const {
    return test::TemporaryFolder::read(folder_ / ("pass-00000/" + file));
  }

  test::TemporaryFolder folder_;
};

// Requests to `paddle serve` may name the columns in place of the slots.
TEST(SlotsJsonTest, NamesTheColumnsOfCsv) {
  const test::TemporaryFolder folder;
  const auto slots_of = [&](std::string job) {
    folder.write("job.toml", job + R"([[layer]]
name = "score"
type = "fc"
input = ["numbers"]
size = 1
[[layer]]
name = "cost"
type = "squared_error"
input = ["score"]
label = "label"
[train]
passes = 1
)");
    const auto read = config::read_job(folder / "job.toml");
    EXPECT_TRUE(read) << read.error().message;
    return read ? slots_json(read->data).text() : "";
  };
  const std::string slots = R"([[data.slot]]
name = "label"
type = "float"
[[data.slot]]
name = "numbers"
type = "float"
)";
  const std::string columns = R"(columns = ["age", "size", "height", "f", "p", "t"]
)";
  const std::string town = R"([[data.slot]]
name = "town"
type = "hash"
)";
  EXPECT_EQ(slots_of("[data]\ntrain = \"x\"\nformat = \"csv\"\ncolumns = [\"label\", \"town\", "
                     "\"age\", \"size\", \"height\", \"f\", \"p\", \"t\", \"unread\"]\n" +
                     slots + columns + town),
            R"({"format":"csv","slots":[{"name":"label","type":"float","width":1,)"
            R"("columns":["label"]},{"name":"numbers","type":"float","width":6,)"
            R"("columns":["age","size","height","f","p","t"]},)"
            R"({"name":"town","type":"hash","columns":["town"]}]})");
  const std::string jsonl =
      slots_of("[data]\ntrain = \"x\"\nformat = \"jsonl\"\n" + slots + "width = 6\n" + town);
  EXPECT_NE(jsonl.find(R"({"name":"town","type":"hash"})"), std::string::npos) << jsonl;
  EXPECT_EQ(jsonl.find("columns"), std::string::npos) << jsonl;
}

// A client sends texts for hashes, and ids for all other types.
TEST(SlotsJsonTest, NamesTheSlotsThatHoldTexts) {
  config::DataConfig data;
  data.format = "jsonl";
  data.slots = {{.name = "town", .type = config::SlotType::kHash},
                {.name = "tags", .type = config::SlotType::kHashes},
                {.name = "user", .type = config::SlotType::kId},
                {.name = "items", .type = config::SlotType::kIds},
                {.name = "class", .type = config::SlotType::kId, .labels = {"no", "yes"}}};
  EXPECT_EQ(slots_json(data).text(),
            R"({"format":"jsonl","slots":[{"name":"town","type":"hash"},)"
            R"({"name":"tags","type":"hashes"},{"name":"user","type":"id"},)"
            R"({"name":"items","type":"ids"},)"
            R"({"name":"class","type":"id","labels":["no","yes"]}]})");
  data.format = "csv";
  data.columns = {"site", "page", "tags"};
  data.slots = {
      {.name = "places", .type = config::SlotType::kHash, .columns = {0, 1}},
      {.name = "tags", .type = config::SlotType::kHash, .columns = {2}, .separator = '|'}};
  EXPECT_EQ(slots_json(data).text(),
            R"({"format":"csv","slots":[{"name":"places","type":"hashes",)"
            R"("columns":["site","page"]},{"name":"tags","type":"hashes","columns":["tags"]}]})");
  data.format = "criteo";
  const std::string criteo = slots_json(data).text();
  EXPECT_NE(criteo.find(R"({"name":"label","type":"id"},{"name":"dense","type":"float")"),
            std::string::npos)
      << criteo;
  EXPECT_NE(criteo.find(R"({"name":"C1","type":"hash"})"), std::string::npos) << criteo;
  EXPECT_NE(criteo.find(R"({"name":"C26","type":"hash"})"), std::string::npos) << criteo;
  data.format = "libsvm";
  data.buckets = 10;
  EXPECT_NE(slots_json(data).text().find("\"weighted_ids\""), std::string::npos);
}

TEST_F(DescriptionTest, ASnapshotNeedsNoWorkspace) {
  const auto snapshot = save(describe());
  EXPECT_EQ(content("path.txt"), "job.toml") << "as v0.10 wrote it, without an end of line";
  EXPECT_EQ(content("job.toml"), kJob);
  EXPECT_EQ(content("model/dictionary.txt"), kWords);
  EXPECT_EQ(
      content("model/slots.json"),
      R"({"format":"bow","slots":[{"name":"words","type":"ids"},{"name":"label","type":"id"}]})"
      "\n");
  std::filesystem::remove_all(folder_ / "w");
  const auto read = read_description(snapshot, {});
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->job.train.passes, 7U) << "--set is in it";
  EXPECT_EQ(read->job.layers.size(), 2U);
  EXPECT_EQ(read->dictionary.size(), 3U);
  EXPECT_EQ(read->dictionary.id("bad"), 1U);
  EXPECT_EQ(read_description(snapshot, {.config = "", .overrides = {"train.passes=1"}, .files = {}})
                ->job.train.passes,
            1U);
}

TEST_F(DescriptionTest, OfALargeFileItHasTheHash) {
  const auto snapshot = save(describe(8));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "pass-00000/model/dictionary.txt"));
  EXPECT_TRUE(content("model/dictionary.txt.sha256").ends_with("  dictionary.txt\n"));
  const auto missing = read_description(snapshot, {});
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, Errc::kUsage);
  EXPECT_EQ(missing.error().hint, "name the file: --model_file=dictionary.txt=PATH");

  DescriptionSource source;
  source.files = {"dictionary.txt=" + (folder_ / "w/words.txt")};
  const auto given = read_description(snapshot, source);
  ASSERT_TRUE(given) << given.error().message;
  EXPECT_EQ(given->dictionary.size(), 3U);

  folder_.write("w/words.txt", "bad\ngood\n<unk>\n");
  const auto other = read_description(snapshot, source);
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code, Errc::kData);
  source.files = {"dictionary.txt"};
  EXPECT_EQ(read_description(snapshot, source).error().code, Errc::kUsage);
}

TEST_F(DescriptionTest, AFileThatTheSnapshotHasIsNotReplacedByAnother) {
  const auto snapshot = save(describe());
  const std::string path = folder_.write("words.txt", "bad\ngood\n<unk>\n");
  const auto other = read_description(snapshot, {.files = {"dictionary.txt=" + path}});
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code, Errc::kData);
  const auto misspelt = read_description(snapshot, {.files = {"dictionery.txt=" + path}});
  ASSERT_FALSE(misspelt);
  EXPECT_EQ(misspelt.error().code, Errc::kUsage);
  EXPECT_EQ(misspelt.error().hint, "it depends on dictionary.txt");
  folder_.write("words.txt", kWords);
  EXPECT_TRUE(read_description(snapshot, {.files = {"dictionary.txt=" + path}}));
  EXPECT_EQ(read_description(
                snapshot, {.config = folder_ / "w/job.toml", .files = {"dictionary.txt=" + path}})
                .error()
                .code,
            Errc::kUsage);
}

TEST_F(DescriptionTest, AProgramOfTheSnapshotIsRunOnlyWhereItIsAllowed) {
  std::string job = kJob;
  job.insert(job.find("[[layer]]"), "pipe_command = [\"touch\", \"x\"]\n");
  folder_.write("w/job.toml", job);
  const auto snapshot = save(describe());
  const auto refused = read_description(snapshot, {.overrides = {"data.on_bad_record=skip"}});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::kUsage);
  EXPECT_NE(refused.error().message.find("'touch' 'x'"), std::string::npos)
      << refused.error().message;
  EXPECT_NE(refused.error().hint.find("--allow_pipe_command"), std::string::npos);
  const auto allowed = read_description(snapshot, {.allows_pipe_command = true});
  ASSERT_TRUE(allowed) << allowed.error().message;
  EXPECT_EQ(allowed->job.data.pipe_command, (std::vector<std::string>{"touch", "x"}));
  const auto other = read_description(snapshot, {.overrides = {R"(data.pipe_command=["zcat"])"}});
  ASSERT_TRUE(other) << other.error().message;
  EXPECT_EQ(other->job.data.pipe_command, std::vector<std::string>{"zcat"});
  EXPECT_TRUE(read_description(snapshot, {.config = folder_ / "w/job.toml"}));
}

TEST_F(DescriptionTest, ACommandForObjectsOfTheSnapshotIsRunOnlyWhereItIsAllowed) {
  std::string job = kJob;
  job.insert(job.find("[[layer]]"), "command = [\"touch\", \"x\"]\n");
  folder_.write("w/job.toml", job);
  const auto snapshot = save(describe());
  const auto refused = read_description(snapshot, {.overrides = {"data.on_bad_record=skip"}});
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("its data.command: 'touch' 'x'"), std::string::npos)
      << refused.error().message;
  EXPECT_TRUE(read_description(snapshot, {.allows_pipe_command = true}));
  const auto files = read_description(snapshot, {.overrides = {"data.command=[]"}});
  ASSERT_TRUE(files) << files.error().message;
  EXPECT_TRUE(files->job.data.command.empty());
}

TEST_F(DescriptionTest, OnlyFilesOfTheSnapshotAreNamedInIt) {
  const std::string words = folder_.write("words.txt", kWords);
  for (const std::string& name :
       {words, std::string("../../words.txt"), std::string("job.toml"), std::string("other.txt")}) {
    auto files = describe();
    for (snapshot::ModelFile& file : files) {
      const std::size_t at = file.content.find("dictionary.txt");
      if (file.name == "model/job.toml") file.content.replace(at, 14, name);
    }
    const auto read = read_description(save(files), {});
    ASSERT_FALSE(read) << name;
    EXPECT_EQ(read.error().code, Errc::kData) << read.error().message;
    EXPECT_NE(read.error().message.find("which is not a file of the snapshot"), std::string::npos)
        << read.error().message;
  }
}

TEST_F(DescriptionTest, MoreFilesThanASnapshotKeepsAreRefusedAtTheStart) {
  std::string job = kJob;
  for (std::size_t i = 0; i < snapshot::kModelFilesMax; ++i) {
    const std::string counts = "counts-" + std::to_string(i);
    folder_.write("w/" + counts, "5\n3\n1\n");
    job.insert(job.find("[train]"), "[[layer]]\nname = \"" + counts +
                                        "\"\ntype = \"nce\"\ninput = [\"score\"]\n"
                                        "label = \"label\"\nvocabulary = \"dictionary\"\n"
                                        "distribution = \"unigram\"\ncounts = \"" +
                                        counts + "\"\n");
  }
  folder_.write("w/job.toml", job);
  const auto described = describe_model(resolved({}), folder_ / "w/job.toml");
  ASSERT_FALSE(described);
  EXPECT_EQ(described.error().code, Errc::kUsage);
  EXPECT_NE(described.error().message.find("snapshots keep 60"), std::string::npos)
      << described.error().message;
}

TEST_F(DescriptionTest, AnOldSnapshotIsReadWithItsConfig) {
  const auto snapshot = save({});
  const auto none = read_description(snapshot, {});
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, Errc::kUsage);
  EXPECT_NE(none.error().hint.find("--config=FILE"), std::string::npos);
  const auto read =
      read_description(snapshot, {.config = folder_ / "w/job.toml", .overrides = {}, .files = {}});
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->dictionary.size(), 3U);
}

}  // namespace
}  // namespace paddle::inference
