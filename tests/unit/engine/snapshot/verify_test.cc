#include "engine/snapshot/verify.h"

#include "tests/unit/engine/snapshot/snapshot_fixture.h"

namespace paddle::snapshot {
namespace {

TEST_F(SnapshotTest, VerifyTellsAboutOneSnapshotOrAllInAFolder) {
  write_delta();
  const auto one = verify_all(directory_);
  ASSERT_TRUE(one);
  ASSERT_EQ(one->size(), 1U);
  EXPECT_FALSE(one->front().error);
  EXPECT_EQ(one->front().id.size(), 32U);
  EXPECT_EQ(one->front().passes, info().pass);
  EXPECT_EQ(one->front().step, info().step);
  EXPECT_EQ(one->front().files, 4U);

  std::filesystem::create_directory(root_ + "/pass-00009.tmp");
  std::filesystem::create_directory(root_ + "/notes");
  const auto all = verify_all(root_);
  ASSERT_TRUE(all);
  ASSERT_EQ(all->size(), 2U);
  EXPECT_EQ(all->back().directory, base_);
  EXPECT_FALSE(all->back().error);
}

// A delta is damaged with its base; a MANIFEST that is gone is damage too.
TEST_F(SnapshotTest, VerifyNamesEveryDamagedSnapshot) {
  write_delta();
  const std::string path = base_ + "/my table.sparse-00000";
  overwrite(path, content(path) + "x");
  auto all = verify_all(root_);
  ASSERT_TRUE(all);
  for (const Verdict& verdict : *all) {
    ASSERT_TRUE(verdict.error) << verdict.directory;
    EXPECT_NE(verdict.error->message.find("my table.sparse-00000"), std::string::npos);
  }
  std::filesystem::remove(directory_ + "/MANIFEST");
  all = verify_all(root_);
  ASSERT_TRUE(all);
  EXPECT_NE(all->front().error->message.find("MANIFEST"), std::string::npos);

  std::filesystem::remove_all(base_);
  std::filesystem::remove_all(directory_);
  EXPECT_EQ(verify_all(root_).error().code, Errc::kData);
  EXPECT_EQ(verify_all(root_ + "/absent").error().code, Errc::kResource);
}

// Only v0.10's loaders read it, so the snapshot is whole, as for train --resume and for fetch. An
// earlier release wrote its own version.
TEST_F(SnapshotTest, VerifyWarnsOfADamagedDoneMarker) {
  write();
  const std::string path = directory_ + "/done";
  const std::string whole = content(path);
  overwrite(path, "paddle version: 0.0.1 real byte size: 4\n");
  EXPECT_FALSE(verify(directory_).error);
  EXPECT_EQ(verify(directory_).warning, "");
  for (const std::string& damaged :
       {std::string(), whole.substr(0, whole.size() - 1), whole + "x", "x" + whole,
        std::string("paddle version: 1 real byte size: 8\n"), std::string(9000, 'x')}) {
    overwrite(path, damaged);
    const Verdict verdict = verify(directory_);
    EXPECT_FALSE(verdict.error) << damaged;
    EXPECT_TRUE(verdict.warning.starts_with(path + " is damaged: ")) << verdict.warning;
    EXPECT_EQ(verdict.files, 3U) << "the rest of the verdict is there";
    EXPECT_TRUE(SnapshotReader::open(directory_)) << "no loader of ours reads it";
  }
  std::filesystem::remove(path);
  EXPECT_FALSE(verify(directory_).error);
  EXPECT_TRUE(verify(directory_).warning.starts_with(path + " is missing: "));
  std::filesystem::create_directory(path);
  EXPECT_FALSE(verify(directory_).error);
  EXPECT_TRUE(verify(directory_).warning.starts_with(path + " is damaged: "));
  // Other damage is still an error.
  const std::string values = directory_ + "/_fc.wbias";
  overwrite(values, content(values) + "x");
  EXPECT_TRUE(verify(directory_).error);
  EXPECT_EQ(verify(directory_).warning, "");
}

TEST_F(SnapshotTest, VerifyNamesARowThatIsThereTwice) {
  auto writer = SnapshotWriter::create(directory_, info());
  ASSERT_TRUE(writer);
  ASSERT_TRUE(writer->begin_sparse(sparse_spec(), 2));
  ASSERT_TRUE(writer->add_rows(test::encoded(rows())));
  ASSERT_TRUE(writer->add_rows(test::encoded({rows().back()})));
  ASSERT_TRUE(writer->end_sparse());
  ASSERT_TRUE(writer->finish());
  const Verdict verdict = verify(directory_);
  ASSERT_TRUE(verdict.error);
  EXPECT_NE(verdict.error->message.find("'my table' has row 18446744073709551615 more than once"),
            std::string::npos)
      << verdict.error->message;
}

}  // namespace
}  // namespace paddle::snapshot
