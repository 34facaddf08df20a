#include "engine/snapshot/retention.h"

#include <set>

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
  std::set<std::string> names() const {
    std::set<std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator(root_)) {
      found.insert(entry.path().filename());
    }
    return found;
  }
  std::string newest() const {
    const auto found = newest_snapshot(root_);
    EXPECT_TRUE(found) << found.error().message;
    return std::filesystem::path(*found).filename();
  }
};

TEST_F(RetentionTest, TheNewestHasTheMostPassesAndSteps) {
  EXPECT_EQ(newest(), "");
  write_named("pass-00001", 2, 20);
  write_named("pass-00000", 1, 10);
  EXPECT_EQ(newest(), "pass-00001");
  // A stop in the third pass; its name sorts before that of the pass.
  write_named("pass-00000-stopped", 2, 25);
  EXPECT_EQ(newest(), "pass-00000-stopped");
  // Neither an unfinished one counts nor an empty or another folder.
  std::filesystem::create_directory(root_ + "/pass-00009.tmp");
  std::filesystem::copy(root_ + "/pass-00001/MANIFEST", root_ + "/pass-00009.tmp/MANIFEST");
  std::filesystem::create_directory(root_ + "/pass-00008");
  overwrite(root_ + "/pass-notes.txt", "mine");
  write_named("other", 9, 90);
  EXPECT_EQ(newest(), "pass-00000-stopped");
  EXPECT_EQ(newest_snapshot(root_ + "/absent").error().code, Errc::kResource);
}

// A snapshot that cannot be read may be the newest: going on from an older one, or from nothing,
// would lose work without a word.
TEST_F(RetentionTest, ADamagedManifestIsAnErrorThatNamesItAndTheWayOn) {
  write_named("pass-00000", 1, 10);
  write_named("pass-00001", 2, 20);
  const std::string manifest = root_ + "/pass-00001/MANIFEST";
  const std::string whole = content(manifest);
  std::string flipped = whole;
  flipped[flipped.find("pass=2") + 5] = '7';
  for (const std::string& text : {flipped, whole.substr(0, whole.size() / 2), std::string()}) {
    overwrite(manifest, text);
    const auto found = newest_snapshot(root_);
    ASSERT_FALSE(found) << *found;
    EXPECT_EQ(found.error().code, Errc::kData);
    EXPECT_NE(found.error().message.find("pass-00001"), std::string::npos);
    EXPECT_NE(found.error().message.find("MANIFEST"), std::string::npos);
    EXPECT_EQ(found.error().hint,
              fmt::format("move {}/pass-00001 away; --resume then goes on from pass-00000", root_));
  }
  std::filesystem::remove(manifest);  // its files are still there
  EXPECT_FALSE(newest_snapshot(root_));
  // An older one is not passed over either.
  overwrite(manifest, whole);
  overwrite(root_ + "/pass-00000/MANIFEST", "");
  EXPECT_FALSE(newest_snapshot(root_));
  std::filesystem::remove_all(root_ + "/pass-00001");
  const auto only = newest_snapshot(root_);
  ASSERT_FALSE(only);
  EXPECT_NE(only.error().hint.find("no other snapshot is there"), std::string::npos);
  // Nor is it replaced.
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
  EXPECT_EQ(newest(), "pass-00001");
  ASSERT_TRUE(keep_newest(root_, 1, 5));
  EXPECT_EQ(names(), (std::set<std::string>{"pass-00001", "pass-00002.tmp"}));
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

}  // namespace
}  // namespace paddle::snapshot
