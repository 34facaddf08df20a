#include "base/tree.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include <gtest/gtest.h>

#include "tests/support/temporary_folder.h"

namespace paddle {
namespace {

namespace fs = std::filesystem;
using Kind = TreeEntry::Kind;

class TreeTest : public testing::Test {
 protected:
  UniqueFd open(const std::string& path) const {
    return UniqueFd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  }
  mode_t mode_of(const std::string& name) const {
    struct stat info {};
    return ::lstat((folder_ / name).c_str(), &info) == 0 ? info.st_mode & 07777U : 0;
  }
  std::string walked(const std::string& below = "") {
    std::string seen;
    TreeWalk walk([&](const TreeEntry& entry, int, const std::string&) -> Result<bool> {
      seen += entry.path + " ";
      return entry.path != below;
    });
    EXPECT_TRUE(walk.run(root_.get(), ""));
    return seen;
  }

  const test::TemporaryFolder folder_;
  const UniqueFd root_ = open(folder_.path());
};

TEST_F(TreeTest, AWalkVisitsFoldersFirstAndFollowsNoLink) {
  folder_.write("b/deep/x", "1");
  folder_.write("a", "1");
  folder_.make("c");
  fs::create_directory_symlink("b", folder_ / "link");
  EXPECT_EQ(walked(), "a b b/deep b/deep/x c link ");
  EXPECT_EQ(walked("b"), "a b c link ");
  const auto link = entry_at(root_.get(), "link", "link");
  ASSERT_TRUE(link);
  EXPECT_EQ(link->kind, Kind::kLink);
  EXPECT_EQ(link->link, "b");
  EXPECT_FALSE(entry_at(root_.get(), "none", "none"));
  ASSERT_EQ(::mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  EXPECT_EQ(entry_at(root_.get(), "pipe", "pipe")->kind, Kind::kOther);
}

TEST_F(TreeTest, WhatIsRemovedDuringAWalkIsCounted) {
  folder_.write("a/x", "1");
  folder_.write("b/x", "1");
  TreeWalk walk([&](const TreeEntry& entry, int, const std::string&) -> Result<bool> {
    if (entry.path == "a") fs::remove_all(folder_ / "a");
    if (entry.path == "b/x") return false;
    return true;
  });
  EXPECT_TRUE(walk.run(root_.get(), ""));
  EXPECT_EQ(walk.gone(), 1U);
}

TEST_F(TreeTest, AWalkIntoTooManyFoldersEnds) {
  std::string path = folder_.path();
  for (int i = 0; i < kTreeDepthMax + 2; ++i) path += "/d";
  fs::create_directories(path);
  TreeWalk walk([](const TreeEntry&, int, const std::string&) -> Result<bool> { return true; });
  const Status done = walk.run(root_.get(), "top");
  ASSERT_FALSE(done);
  EXPECT_NE(done.error().message.find("500 folders deep"), std::string::npos);
}

TEST_F(TreeTest, ADraftGetsItsNameWhenItIsWholeOrGoes) {
  {
    auto draft = DraftFile::create(root_.get());
    ASSERT_TRUE(draft);
    ASSERT_TRUE(write_all(draft->fd(), as_bytes("text"), TimePoint::max()));
    EXPECT_FALSE(fs::exists(folder_ / "name"));
    ASSERT_TRUE(draft->commit("name", 0640, 1'000'000'001));
  }
  EXPECT_EQ(test::TemporaryFolder::read(folder_ / "name"), "text");
  EXPECT_EQ(mode_of("name"), 0640U);
  { const auto gone = DraftFile::create(root_.get()); }
  EXPECT_EQ(walked(), "name ");
  folder_.make("folder");
  auto draft = DraftFile::create(root_.get());
  const Status refused = draft->commit("folder");
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("folder exists as a folder at the destination"),
            std::string::npos)
      << refused.error().message;
  ASSERT_TRUE(draft->commit(std::string(255, 'n'))) << "as long as a name can be";
}

TEST_F(TreeTest, NoFileOrLinkTakesThePlaceOfAPipeOrDevice) {
  ASSERT_EQ(::mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  auto draft = DraftFile::create(root_.get());
  ASSERT_TRUE(draft);
  const Status file = draft->commit("pipe");
  ASSERT_FALSE(file);
  EXPECT_NE(file.error().message.find(
                "pipe exists as a device, pipe or socket at the destination, but is a file here"),
            std::string::npos)
      << file.error().message;
  TreeWriter writer(root_.get());
  EXPECT_FALSE(writer.make_link({"pipe", Kind::kLink, 0777, 0, 0, "/elsewhere"}));
  EXPECT_TRUE(fs::is_fifo(fs::symlink_status(folder_ / "pipe")));
  ::unlink((folder_ / "pipe").c_str());
  fs::create_symlink("/nowhere", folder_ / "pipe");
  EXPECT_TRUE(draft->commit("pipe")) << "a link gives way";
}

TEST_F(TreeTest, OldDraftsGoButNotThoseInUse) {
  folder_.write(".paddlectl-1-0.part", "of a killed program");
  folder_.write(".paddlectl-1", "somebody's");
  const auto used = DraftFile::create(root_.get());
  ASSERT_TRUE(used);
  remove_old_drafts(root_.get());
  EXPECT_FALSE(fs::exists(folder_ / ".paddlectl-1-0.part"));
  EXPECT_TRUE(fs::exists(folder_ / ".paddlectl-1"));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_.path()), fs::directory_iterator()), 2);
}

TEST_F(TreeTest, AWriterGivesModesAndTimesAtItsEnd) {
  TreeWriter writer(root_.get());
  ASSERT_TRUE(writer.make_folder({"a", Kind::kFolder, 0555, 5'000'000'000, 0, ""}));
  ASSERT_TRUE(writer.make_folder({"a/b", Kind::kFolder, 0710, 6'000'000'000, 0, ""}));
  ASSERT_TRUE(writer.make_link({"a/link", Kind::kLink, 0777, 7'000'000'000, 0, "/nowhere"}));
  ASSERT_TRUE(writer.finish());
  EXPECT_EQ(mode_of("a"), 0555U);
  EXPECT_EQ(mode_of("a/b"), 0710U);
  struct stat info {};
  ASSERT_EQ(::stat((folder_ / "a").c_str(), &info), 0);
  EXPECT_EQ(info.st_mtim.tv_sec, 5);
  TreeWriter again(root_.get(), 0755);
  ASSERT_TRUE(again.make_folder({"a", Kind::kFolder, 0777, 5'000'000'000, 0, ""}));
  ASSERT_TRUE(again.make_link({"a/link", Kind::kLink, 0777, 0, 0, "/elsewhere"}));
  ASSERT_TRUE(again.finish());
  EXPECT_EQ(mode_of("a"), 0755U) << "bits that are not kept";
  EXPECT_EQ(fs::read_symlink(folder_ / "a/link"), "/elsewhere");
}

TEST_F(TreeTest, AWriterGoesThroughNoLinkAndNowhereElse) {
  const test::TemporaryFolder outside;
  fs::create_directory_symlink(outside.path(), folder_ / "link");
  folder_.write("file", "1");
  TreeWriter writer(root_.get());
  for (const char* const path : {"link/x", "link", "file", "file/x", "../x", "/x", "a//b", ""})
    EXPECT_FALSE(writer.make_folder({path, Kind::kFolder, 0755, 0, 0, ""})) << path;
  EXPECT_FALSE(writer.make_link({"link/x", Kind::kLink, 0777, 0, 0, "y"}));
  EXPECT_FALSE(writer.open_above("link/x"));
  EXPECT_TRUE(fs::is_empty(outside.path()));
}

}  // namespace
}  // namespace paddle
