#include "base/safe_path.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "tests/support/temporary_folder.h"

namespace paddle {
namespace {

class SafePathTest : public testing::Test {
 protected:
  test::TemporaryFolder folder_;
  const std::string& path_ = folder_.path();
  const UniqueFd root_{::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
};

SafePath path_of(std::string_view text) {
  return *SafePath::parse(text);
}

TEST_F(SafePathTest, RefusesHostileNames) {
  using namespace std::string_view_literals;
  const std::string_view hostile[] = {
      "",      "/",    "/etc/passwd", "..",  "../x",   "a/../b", "a/..", ".",     "./a",
      "a/./b", "a//b", "a/",          "//a", "a\0b"sv, "a/.",    "\0"sv, "../..",
  };
  for (const std::string_view name : hostile) {
    const auto parsed = SafePath::parse(name);
    ASSERT_FALSE(parsed) << name;
    EXPECT_EQ(parsed.error().code, Errc::kData);
  }
  EXPECT_FALSE(SafePath::parse(std::string(256, 'a')));
  std::string deep = "a";
  while (deep.size() < 4096) deep += "/a";
  EXPECT_FALSE(SafePath::parse(deep));
}

TEST_F(SafePathTest, TakesOrdinaryNames) {
  for (const std::string_view name : {"a", "a/b.txt", "..a", "a..", "...", "a b/ü", "-rf"}) {
    const auto parsed = SafePath::parse(name);
    ASSERT_TRUE(parsed) << name;
    EXPECT_EQ(parsed->str(), name);
  }
  EXPECT_TRUE(SafePath::parse(std::string(255, 'a')));
}

TEST_F(SafePathTest, MakesFoldersPrivatelyAndTellsThemFromFiles) {
  const auto made = path_of("one/two").make_directories(root_.get());
  ASSERT_TRUE(made) << made.error().message;
  ASSERT_TRUE(replace_file(path_ + "/one/two/file", as_bytes("content")));
  struct stat info {};
  ASSERT_EQ(::stat((path_ + "/one/two").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777U, 0700U);
  EXPECT_TRUE(path_of("one/two/file").open_read(root_.get()));
  EXPECT_TRUE(path_of("one/two").open_directory(root_.get()));
  EXPECT_FALSE(path_of("one/two").open_read(root_.get()));
  EXPECT_FALSE(path_of("one/two/file").open_directory(root_.get()));
}

TEST_F(SafePathTest, FollowsNoSymbolicLinkAnywhere) {
  ASSERT_TRUE(path_of("inside").make_directories(root_.get()));
  ASSERT_TRUE(replace_file(path_ + "/inside/file", as_bytes("content")));
  ASSERT_EQ(::symlink("inside", (path_ + "/link").c_str()), 0);
  ASSERT_EQ(::symlink("/etc", (path_ + "/out").c_str()), 0);
  ASSERT_EQ(::symlink("inside/file", (path_ + "/last").c_str()), 0);
  ASSERT_EQ(::symlink("inside/new", (path_ + "/dangling").c_str()), 0);
  EXPECT_TRUE(path_of("inside/file").open_read(root_.get()));
  EXPECT_FALSE(path_of("link/file").open_read(root_.get()));
  EXPECT_FALSE(path_of("out/passwd").open_read(root_.get()));
  EXPECT_FALSE(path_of("last").open_read(root_.get()));
  EXPECT_FALSE(path_of("dangling").open_read(root_.get()));
  EXPECT_FALSE(path_of("link/sub").make_directories(root_.get()));
  EXPECT_FALSE(path_of("link").open_directory(root_.get()));
  EXPECT_FALSE(std::filesystem::exists(path_ + "/inside/sub"));
}

TEST_F(SafePathTest, OpensOnlyRegularFilesAndNeverWaitsForAFifo) {
  ASSERT_EQ(::mkfifo((path_ + "/fifo").c_str(), 0600), 0);
  const auto opened = path_of("fifo").open_read(root_.get());
  ASSERT_FALSE(opened);
  EXPECT_NE(opened.error().message.find("not a regular file"), std::string::npos);
}

TEST_F(SafePathTest, MakesTheDirectoryItselfAndAgain) {
  ASSERT_TRUE(path_of("a/b/c").make_directories(root_.get()));
  EXPECT_TRUE(std::filesystem::is_directory(path_ + "/a/b/c"));
  EXPECT_TRUE(path_of("a/b/c").make_directories(root_.get()));
}

}  // namespace
}  // namespace paddle
