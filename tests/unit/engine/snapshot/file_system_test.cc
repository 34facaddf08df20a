// The kernel's file system and the one in memory, which must not differ.
#include "engine/snapshot/file_system.h"

#include <filesystem>

#include <gtest/gtest.h>

#include "tests/support/files/memory_files.h"
#include "tests/support/temporary_folder.h"

namespace paddle::snapshot {
namespace {

class FileSystemTest : public ::testing::TestWithParam<bool> {
 protected:
  FileSystemTest() { EXPECT_TRUE(files_.make_directories(root_)); }

  void write(const std::string& directory, const std::string& name, const std::string& content) {
    const auto opened = files_.open_directory(directory);
    ASSERT_TRUE(opened) << opened.error().message;
    const auto file = (*opened)->create(name);
    ASSERT_TRUE(file) << file.error().message;
    EXPECT_TRUE((*file)->append(as_bytes(content.substr(0, 1))));
    EXPECT_TRUE((*file)->append(as_bytes(content.substr(1))));
    EXPECT_TRUE((*file)->sync());
    EXPECT_TRUE((*opened)->sync());
  }
  std::vector<std::string> names(const std::string& directory) {
    const auto found = files_.list(directory);
    return found ? *found : std::vector<std::string>{found.error().message};
  }
  static void expect_names(const Status& failed, const std::string& path) {
    ASSERT_FALSE(failed);
    EXPECT_EQ(failed.error().code, Errc::kResource);
    EXPECT_NE(failed.error().message.find(path), std::string::npos) << failed.error().message;
  }

  test::TemporaryFolder folder_;
  test::MemoryFiles memory_;
  FileSystem& files_ = GetParam() ? static_cast<FileSystem&>(memory_) : kernel_file_system();
  std::string root_ = folder_ / "one/two/";
};

TEST_P(FileSystemTest, AFileIsWrittenOnceAndReadInParts) {
  write(root_, "b", "content");
  write(root_, "a", "other");
  EXPECT_EQ(names(root_), (std::vector<std::string>{"a", "b"}));
  const auto directory = files_.open_directory(root_);
  ASSERT_TRUE(directory);
  EXPECT_EQ((*directory)->create("b").error().code, Errc::kResource);
  EXPECT_EQ((*directory)->open("c").error().code, Errc::kData);
  const auto file = (*directory)->open("b");
  ASSERT_TRUE(file);
  EXPECT_EQ((*file)->size(), 7U);
  std::array<std::byte, 4> part{};
  ASSERT_TRUE((*file)->read(part));
  EXPECT_EQ(part[3], std::byte{'t'});
  ASSERT_TRUE((*file)->read(std::span(part).first(3)));
  EXPECT_EQ(part[2], std::byte{'t'});
  EXPECT_FALSE((*file)->read(std::span(part).first(1)));
  EXPECT_EQ(*files_.read_file(root_ + "b", 7), "content");
  EXPECT_EQ(files_.read_file(root_ + "b", 6).error().code, Errc::kData);
  EXPECT_EQ(files_.read_file(root_ + "c", 6).error().code, Errc::kData);
}

TEST_P(FileSystemTest, ADirectoryStaysTheSameWhenItIsRenamed) {
  ASSERT_TRUE(files_.make_directory(root_ + "old"));
  const auto directory = files_.open_directory(root_ + "old");
  ASSERT_TRUE(directory);
  ASSERT_TRUE(files_.rename(root_ + "old", root_ + "new"));
  ASSERT_TRUE((*directory)->create("file"));
  EXPECT_EQ(files_.kind(root_ + "new/file"), EntryKind::kOther);
  EXPECT_EQ(files_.kind(root_ + "old"), EntryKind::kNone);
}

TEST_P(FileSystemTest, NothingIsRenamedOverADirectoryThatHasFiles) {
  ASSERT_TRUE(files_.make_directory(root_ + "a"));
  ASSERT_TRUE(files_.make_directory(root_ + "b"));
  write(root_ + "b", "file", "content");
  expect_names(files_.rename(root_ + "a", root_ + "b"), root_ + "a");
  expect_names(files_.rename(root_ + "c", root_ + "d"), root_ + "c");
  EXPECT_TRUE(files_.rename(root_ + "b", root_ + "a"));
  EXPECT_EQ(names(root_), std::vector<std::string>{"a"});
  EXPECT_EQ(names(root_ + "a"), std::vector<std::string>{"file"});
}

TEST_P(FileSystemTest, TwoNamesAreExchangedIfBothAreThere) {
  ASSERT_TRUE(files_.make_directory(root_ + "a"));
  write(root_ + "a", "file", "content");
  EXPECT_FALSE(files_.exchange(root_ + "a", root_ + "b"));
  ASSERT_TRUE(files_.make_directory(root_ + "b"));
  ASSERT_TRUE(files_.exchange(root_ + "a", root_ + "b"));
  EXPECT_EQ(names(root_ + "a"), std::vector<std::string>());
  EXPECT_EQ(names(root_ + "b"), std::vector<std::string>{"file"});
}

TEST_P(FileSystemTest, DirectoriesAreMadeAndRemovedWithAllThatIsInThem) {
  EXPECT_EQ(files_.kind(root_), EntryKind::kDirectory);
  EXPECT_TRUE(files_.make_directories(root_));
  expect_names(files_.make_directory(root_.substr(0, root_.size() - 1)), "two");
  expect_names(files_.make_directory(root_ + "x/y"), root_ + "x/y");
  write(root_, "file", "content");
  EXPECT_EQ(files_.open_directory(root_ + "file").error().code, Errc::kResource);
  EXPECT_EQ(files_.list(root_ + "file").error().code, Errc::kResource);
  EXPECT_TRUE(files_.remove_all(folder_ / "one"));
  EXPECT_TRUE(files_.remove_all(folder_ / "one"));
  EXPECT_FALSE(files_.exists(root_));
  EXPECT_EQ(files_.list(root_).error().code, Errc::kResource);
  EXPECT_EQ(files_.sync_directory(root_).error().code, Errc::kResource);
}

INSTANTIATE_TEST_SUITE_P(, FileSystemTest, ::testing::Bool(), [](const auto& each) {
  return std::string(each.param ? "Memory" : "Kernel");
});

}  // namespace
}  // namespace paddle::snapshot
