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
    std::optional<BaseSnapshot> of;
    if (!base.empty()) {
      auto found = base_of(root_ + "/" + base);
      ASSERT_TRUE(found) << found.error().message;
      of = *std::move(found);
    }
    auto writer = SnapshotWriter::create(root_ + "/" + name, of);
    ASSERT_TRUE(writer) << writer.error().message;
    SnapshotInfo facts = info();
    facts.pass = pass;
    facts.step = step;
    ASSERT_TRUE(writer->finish(facts));
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
  // Neither an unfinished nor a damaged one counts, nor another folder.
  std::filesystem::create_directory(root_ + "/pass-00009.tmp");
  std::filesystem::copy(root_ + "/pass-00001/MANIFEST", root_ + "/pass-00009.tmp/MANIFEST");
  write_named("pass-00007", 8, 80);
  overwrite(root_ + "/pass-00007/MANIFEST", "snapshot");
  write_named("other", 9, 90);
  EXPECT_EQ(newest(), "pass-00000-stopped");
  EXPECT_EQ(newest_snapshot(root_ + "/absent").error().code, Errc::kResource);
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
