// Files in a snapshot that describe its model: part of it as all others are.
#include "engine/snapshot/verify.h"
#include "tests/unit/engine/snapshot/snapshot_fixture.h"

namespace paddle::snapshot {
namespace {

class ModelFilesTest : public SnapshotTest {
 protected:
  static std::vector<ModelFile> files() {
    return {{"path.txt", "job.toml"},
            {"job.toml", "# mine\n[train]\n"},
            {"model/job.toml", "[train]\npasses = 3\n"},
            {"model/empty.txt", ""}};
  }
  void write_described(const std::vector<ModelFile>& described) {
    auto writer = SnapshotWriter::create(directory_, info());
    ASSERT_TRUE(writer) << writer.error().message;
    for (const ModelFile& file : described) {
      const Status added = writer->add_model_file(file);
      ASSERT_TRUE(added) << added.error().message;
    }
    const std::vector<float> value = {1, -2.5F};
    ASSERT_TRUE(writer->add_dense(dense_spec(), value, {}, 1));
    const Status finished = writer->finish();
    ASSERT_TRUE(finished) << finished.error().message;
  }
  std::string at(const std::string& file) const { return directory_ + "/" + file; }
};

TEST_F(ModelFilesTest, AreReadBack) {
  write_described(files());
  const auto reader = SnapshotReader::open(directory_);
  ASSERT_TRUE(reader) << reader.error().message;
  for (const ModelFile& file : files()) {
    EXPECT_EQ(content(at(file.name)), file.content) << file.name;
    const auto read = reader->read_model_file(file.name);
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(*read, file.content) << file.name;
  }
  EXPECT_EQ(*reader->read_model_file("model/other.txt"), std::nullopt);
  EXPECT_EQ(verify(directory_).files, 2U + files().size());
}

TEST_F(ModelFilesTest, DamageOfEachIsNamed) {
  for (const ModelFile& file : files()) {
    write_described(files());
    overwrite(at(file.name), file.content + "x");
    const auto damaged = SnapshotReader::open(directory_);
    ASSERT_FALSE(damaged);
    EXPECT_EQ(damaged.error().code, Errc::kData);
    EXPECT_NE(damaged.error().message.find(file.name), std::string::npos)
        << damaged.error().message;
    std::filesystem::remove(at(file.name));
    EXPECT_FALSE(SnapshotReader::open(directory_));
    std::filesystem::remove_all(directory_);
  }
  write_described(files());
  std::string changed = files()[2].content;
  changed[0] = '#';
  overwrite(at("model/job.toml"), changed);
  EXPECT_FALSE(SnapshotReader::open(directory_)) << "its size alone is right";
}

TEST_F(ModelFilesTest, MoreThanCanBeReadAreRefused) {
  auto writer = SnapshotWriter::create(directory_, info());
  ASSERT_TRUE(writer);
  for (std::size_t i = 0; i < kModelFilesMax; ++i)
    ASSERT_TRUE(writer->add_model_file({fmt::format("model/{}.txt", i), "x"}));
  const Status refused = writer->add_model_file({"model/more.txt", "x"});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::kUsage);
  const Status finished = writer->finish();
  ASSERT_TRUE(finished) << finished.error().message;
}

TEST_F(ModelFilesTest, NoParameterHasTheNameOfTheirFolder) {
  write();
  forge(directory_, " name=_fc.wbias\n", " name=model\n", /*hashes=*/false);
  const auto read = SnapshotReader::open(directory_);
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, Errc::kData);
  EXPECT_NE(read.error().message.find("parameter 'model'"), std::string::npos)
      << read.error().message;
}

TEST_F(ModelFilesTest, OnlyTheirOwnNamesAreTaken) {
  auto writer = SnapshotWriter::create(directory_, info());
  ASSERT_TRUE(writer);
  for (const char* name : {"", "other.txt", "model", "model/", "model/../x", "model/a/b", "/x",
                           "model/a\nb", "MANIFEST", "_fc.w0"}) {
    EXPECT_EQ(writer->add_model_file({name, ""}).error().code, Errc::kUsage) << name;
  }
  EXPECT_EQ(
      writer->add_model_file({"model/x", std::string(kModelFileBytesMax + 1, ' ')}).error().code,
      Errc::kUsage);
  EXPECT_TRUE(writer->add_model_file({kStateFile, std::string(kModelFileBytesMax + 1, ' ')}))
      << "only the state of a program may be large";
  write_described(files());
  for (const char* forged : {"name=other", "name=model/job.toml", "name=model/../../x"}) {
    forge(directory_, "name=model/empty.txt", forged, /*hashes=*/false);
    const auto refused = SnapshotReader::open(directory_);
    ASSERT_FALSE(refused) << forged;
    EXPECT_NE(refused.error().message.find("unexpected line"), std::string::npos)
        << refused.error().message;
    std::filesystem::remove_all(directory_);  // a snapshot that cannot be read is not replaced
    write_described(files());
  }
}

}  // namespace
}  // namespace paddle::snapshot
