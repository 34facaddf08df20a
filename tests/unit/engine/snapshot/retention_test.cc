#include "engine/snapshot/retention.h"

#include "engine/snapshot/reader.h"
#include "engine/snapshot/writer.h"
#include "tests/unit/engine/snapshot/snapshot_fixture.h"

namespace paddle::snapshot {
namespace {

class RetentionTest : public SnapshotTest {
 protected:
  // An empty snapshot `name`, a delta when it has a base.
  void write_named(const std::string& name, std::uint64_t pass, std::uint64_t step,
                   const std::string& base = "") {
    SnapshotInfo facts = info();
    if (!base.empty()) {
      auto found = base_of(root_ + "/" + base);
      ASSERT_TRUE(found) << found.error().message;
      facts.base = *std::move(found);
    }
    facts.pass = pass;
    facts.step = step;
    auto writer = SnapshotWriter::create(root_ + "/" + name, facts);
    ASSERT_TRUE(writer) << writer.error().message;
    ASSERT_TRUE(writer->finish());
  }
};

// It may hold the only good files.
TEST_F(RetentionTest, ADamagedSnapshotIsNotReplaced) {
  write_named("pass-00000", 1, 10);
  overwrite(root_ + "/pass-00000/MANIFEST", "");
  directory_ = root_ + "/pass-00000";
  const auto writer = SnapshotWriter::create(directory_, info());
  ASSERT_FALSE(writer);
  EXPECT_NE(writer.error().message.find("pass-00000: MANIFEST: "), std::string::npos)
      << writer.error().message;
  EXPECT_EQ(writer.error().hint, "move it away, or save to another directory");
}

TEST_F(RetentionTest, WhatAKilledRemovalOrSaveLeftIsNoSnapshotAndGoesWithTheNextPass) {
  for (const char* const name : {"pass-00000.tmp", "pass-00002.tmp"}) {
    std::filesystem::create_directory(root_ + "/" + name);
    overwrite(root_ + "/" + name + "/_fc.wbias", "half");
  }
  write_named("pass-00001", 2, 20);
  ASSERT_TRUE(keep_newest(root_, 1, 5));
  EXPECT_EQ(names(), (std::set<std::string>{"pass-00001", "pass-00002.tmp"}));
}

TEST_F(RetentionTest, TheBestPassStaysWithItsBase) {
  write_named("pass-00000", 1, 10);
  write_named("pass-00001", 2, 20);
  write_named("pass-00002", 3, 30, "pass-00001");
  write_named("pass-00003", 4, 40);
  write_named("pass-00004", 5, 50);
  ASSERT_TRUE(keep_newest(root_, 4, 1, "pass-00002"));
  EXPECT_EQ(names(), (std::set<std::string>{"pass-00001", "pass-00002", "pass-00004"}));
  write_named("pass-00005", 6, 60);
  ASSERT_TRUE(keep_newest(root_, 5, 1, "pass-00004"));
  EXPECT_EQ(names(), (std::set<std::string>{"pass-00004", "pass-00005"}));
  ASSERT_TRUE(keep_newest(root_, 5, 1, "pass-00005"));
  EXPECT_EQ(names(), std::set<std::string>{"pass-00005"}) << "the best is among the newest";
}

TEST_F(RetentionTest, TheNewestPassesStayWithTheirBases) {
  write_named("pass-00000", 1, 10);
  write_named("pass-00001", 2, 20);
  write_named("pass-00002", 3, 30, "pass-00000");
  write_named("pass-00003", 4, 40);
  ASSERT_TRUE(keep_newest(root_, 2, 1));
  EXPECT_EQ(names(), (std::set<std::string>{"pass-00000", "pass-00002", "pass-00003"}));
  ASSERT_TRUE(keep_newest(root_, 3, 1));
  EXPECT_EQ(names(), std::set<std::string>{"pass-00003"});
}

TEST_F(RetentionTest, AStopGoesOnceItsPassIsOverAndOtherFoldersStay) {
  write_named("pass-00001", 2, 20);
  write_named("pass-00001-stopped", 1, 15);
  write_named("pass-00002-stopped", 2, 25);
  write_named("pass-1", 1, 10);
  std::filesystem::create_directory(root_ + "/pass-00000");  // no snapshot, perhaps the user's
  ASSERT_TRUE(keep_newest(root_, 1, 5));
  EXPECT_EQ(names(),
            (std::set<std::string>{"pass-00000", "pass-00001", "pass-00002-stopped", "pass-1"}));
}

// Saves passes 0 to 2 and a stop, damages something of pass 2, and expects it to be named and the
// others to stay.
class UnreadableSnapshot : public RetentionTest {
 protected:
  void SetUp() override {
    RetentionTest::SetUp();
    write_named("pass-00000", 1, 10);
    write_named("pass-00001", 2, 20);
    write_named("pass-00001-000007", 2, 25);
    directory_ = root_ + "/pass-00002";
    write();
  }
  void expect_all_stay(const std::string& named) {
    const std::set<std::string> before = names();
    const Status kept = keep_newest(root_, 2, 1);
    ASSERT_FALSE(kept);
    EXPECT_EQ(kept.error().code, Errc::kData);
    EXPECT_NE(kept.error().message.find(named), std::string::npos) << kept.error().message;
    EXPECT_EQ(names(), before);
  }
};

TEST_F(UnreadableSnapshot, AFileWithAnotherByteKeepsTheEarlierOnes) {
  for (const char* const file : {"/_fc.wbias", "/_fc.wbias.state", "/my table.sparse-00000"}) {
    const std::string good = content(directory_ + file);
    std::string bad = good;
    bad.back() ^= 1;
    overwrite(directory_ + file, bad);
    expect_all_stay(directory_ + ": " + std::string(file).substr(1));
    overwrite(directory_ + file, good);
  }
  ASSERT_TRUE(keep_newest(root_, 2, 1));
  EXPECT_EQ(names(), std::set<std::string>{"pass-00002"});
}

TEST_F(UnreadableSnapshot, AFileThatIsCutShortOrGoneKeepsTheEarlierOnes) {
  const std::string file = directory_ + "/my table.sparse-00000";
  overwrite(file, content(file).substr(0, 20));
  expect_all_stay("my table.sparse-00000");
  std::filesystem::remove(file);
  expect_all_stay("my table.sparse-00000");
}

TEST_F(UnreadableSnapshot, AManifestThatIsDamagedOrGoneKeepsTheEarlierOnes) {
  overwrite(directory_ + "/MANIFEST", content(directory_ + "/MANIFEST") + "x");
  expect_all_stay("MANIFEST");
  std::filesystem::remove(directory_ + "/MANIFEST");
  expect_all_stay("MANIFEST");
  std::filesystem::remove_all(directory_);
  expect_all_stay("pass-00002");
}

TEST_F(UnreadableSnapshot, ADeltaWithAnotherByteKeepsTheEarlierOnes) {
  std::filesystem::remove_all(directory_);
  write_delta();
  ASSERT_EQ(base_, root_ + "/pass-00001");
  for (const char* const file : {"/my table.sparse-00000", "/my table.sparse-removed"}) {
    const std::string good = content(directory_ + file);
    overwrite(directory_ + file, good + "x");
    expect_all_stay(directory_ + ": " + std::string(file).substr(1));
    overwrite(directory_ + file, good);
  }
  ASSERT_TRUE(keep_newest(root_, 2, 1));
  EXPECT_EQ(names(), (std::set<std::string>{"pass-00001", "pass-00002"}));
}

}  // namespace
}  // namespace paddle::snapshot
