#include "remote/launcher/trusted_file.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <array>
#include <filesystem>

#include <gtest/gtest.h>

#include "tests/support/temporary_folder.h"

namespace paddle::remote {
namespace {

namespace fs = std::filesystem;

class TrustedFile : public testing::Test {
 protected:
  TrustedFile() {
    fs::create_directories(folder_ / "a/b");
    file_ = folder_.write("a/b/file", "text");
  }
  ~TrustedFile() override { fs::current_path("/"); }

  void expect_refused(const std::string& why, const std::string& hint) const {
    const auto refused = read_trusted_file(file_);
    ASSERT_FALSE(refused) << why;
    EXPECT_EQ(refused.error().code, Errc::kAuth);
    EXPECT_NE(refused.error().message.find(why), std::string::npos) << refused.error().message;
    EXPECT_EQ(refused.error().hint, hint);
    EXPECT_FALSE(check_trusted(file_));
  }

  test::TemporaryFolder folder_;
  std::string file_;
};

TEST_F(TrustedFile, IsReadByEveryWayToIt) {
  EXPECT_EQ(*read_trusted_file(file_), "text");
  EXPECT_EQ(*read_trusted_file(folder_ / "a/../a//./b/file"), "text");
  fs::current_path(folder_ / "a/b");
  EXPECT_EQ(*read_trusted_file("file"), "text");
  EXPECT_EQ(*read_trusted_file("../b/file"), "text");
  fs::create_symlink("../../a/b", folder_ / "a/b/again");
  fs::create_symlink(folder_ / "a", folder_ / "whole");
  EXPECT_EQ(*read_trusted_file(folder_ / "whole/b/again/again/file"), "text");
}

TEST_F(TrustedFile, AnyoneWhoMayWriteItOrAFolderAboveIsNamed) {
  for (const char* const name : {"a/b/file", "a/b", "a"}) {
    const std::string open = folder_ / name;
    ASSERT_EQ(::chmod(open.c_str(), 0707), 0);
    expect_refused("can be written by all users", "chmod go-w " + open);
    ASSERT_EQ(::chmod(open.c_str(), 0700), 0);
  }
  EXPECT_TRUE(read_trusted_file(file_));
}

TEST_F(TrustedFile, AFolderAboveTheCurrentOneCounts) {
  fs::current_path(folder_ / "a/b");
  ASSERT_EQ(::chmod((folder_ / "a").c_str(), 0777), 0);
  EXPECT_FALSE(read_trusted_file("file"));
  EXPECT_FALSE(read_trusted_file("./file"));
}

TEST_F(TrustedFile, AGroupThatIsTheOwnersAloneMayWrite) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root gives files away";
  ASSERT_EQ(::chown(file_.c_str(), 0, 65534), 0);
  ASSERT_EQ(::chmod(file_.c_str(), 0660), 0);
  expect_refused("can be written by its group", "chmod g-w " + file_);
  ASSERT_EQ(::chown(file_.c_str(), 0, 0), 0);
  ASSERT_EQ(::chmod(file_.c_str(), 0660), 0);
  EXPECT_TRUE(read_trusted_file(file_));
}

TEST_F(TrustedFile, BelongsToUsRootOrWhoCalledSudo) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root gives files away";
  for (const char* const name : {"a/b/file", "a/b", "a"}) {
    ASSERT_EQ(::chown((folder_ / name).c_str(), 65534, 65534), 0);
    expect_refused("belongs to user 65534",
                   "copy what you trust into a folder of your own, or chown it");
    ::setenv("SUDO_UID", "65534", 1);
    EXPECT_TRUE(read_trusted_file(file_));
    ::setenv("SUDO_UID", "65533", 1);
    EXPECT_FALSE(read_trusted_file(file_));
    ::unsetenv("SUDO_UID");
    ASSERT_EQ(::chown((folder_ / name).c_str(), 0, 0), 0);
  }
}

TEST_F(TrustedFile, AStickyFolderIsGoodForWhatIsOurs) {
  ASSERT_EQ(::chmod((folder_ / "a").c_str(), 01777), 0);
  EXPECT_TRUE(read_trusted_file(file_));
  if (::geteuid() != 0) GTEST_SKIP() << "only root gives files away";
  fs::create_symlink("b", folder_ / "a/link");
  file_ = folder_ / "a/link/file";
  EXPECT_TRUE(read_trusted_file(file_));
  ASSERT_EQ(::lchown((folder_ / "a/link").c_str(), 65534, 65534), 0);
  EXPECT_FALSE(read_trusted_file(file_)) << "a link that another could lead elsewhere";
}

// Else somebody could put it there between the look and the use.
TEST_F(TrustedFile, OneThatOthersCouldPutThereIsNotGood) {
  ::chmod((folder_ / "a/b").c_str(), 01777);
  const Status refused = check_trusted(folder_ / "a/b/absent");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::kAuth);
  EXPECT_NE(
      refused.error().message.find("absent does not exist, and other users could create it in"),
      std::string::npos)
      << refused.error().message;
  EXPECT_FALSE(check_trusted(folder_ / "a/b/absent/config"));
  EXPECT_FALSE(read_trusted_file(folder_ / "a/b/absent"));
  ::chmod((folder_ / "a/b").c_str(), 0755);
  EXPECT_TRUE(check_trusted(folder_ / "a/b/absent"));
}

// "user:nobody:rwx" as setfacl writes it; the mode shows it as the group's.
TEST_F(TrustedFile, AnAccessListMayOpenItToOthers) {
  if (::geteuid() != 0) GTEST_SKIP() << "the group must be the owner's own";
  struct Entry {
    std::uint16_t tag, permissions;
    std::uint32_t id;
  };
  struct {
    std::uint32_t version = 2;
    std::array<Entry, 5> entries{
        {{1, 7, ~0U}, {2, 7, 65534}, {4, 5, ~0U}, {16, 7, ~0U}, {32, 5, ~0U}}};
  } list;
  ::chmod((folder_ / "a").c_str(), 0775);
  ASSERT_TRUE(check_trusted(file_));
  if (::setxattr((folder_ / "a").c_str(), "system.posix_acl_access", &list, sizeof list, 0) != 0)
    GTEST_SKIP() << "no access lists on this file system";
  expect_refused("a can be written by its group", "chmod g-w " + (folder_ / "a"));
}

TEST_F(TrustedFile, IsARegularFileThatIsThere) {
  ASSERT_EQ(::mkfifo((folder_ / "fifo").c_str(), 0600), 0);
  EXPECT_FALSE(read_trusted_file(folder_ / "fifo"));
  EXPECT_FALSE(read_trusted_file(folder_.path()));
  fs::create_symlink("loop", folder_ / "loop");
  EXPECT_FALSE(read_trusted_file(folder_ / "loop"));
  const auto absent = read_trusted_file(folder_ / "absent");
  ASSERT_FALSE(absent);
  EXPECT_EQ(absent.error().message, "open " + (folder_ / "absent") + ": No such file or directory");
  EXPECT_TRUE(check_trusted(folder_ / "absent"));
  EXPECT_FALSE(read_trusted_file(file_, 3)) << "larger than its limit";
}

}  // namespace
}  // namespace paddle::remote
