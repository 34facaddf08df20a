#include "remote/agent/node/root.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include <gtest/gtest.h>

#include "tests/support/temporary_folder.h"

namespace paddle::agent {
namespace {

TEST(Root, NamesOfJobsAndProcessesCannotLeaveTheirFolder) {
  for (const char* good : {"a", "job-1", "a.b_c", "0"}) EXPECT_TRUE(check_name(good)) << good;
  EXPECT_TRUE(check_name(std::string(100, 'x')));
  for (const char* bad : {"", ".", "..", ".hidden", "-rf", "a/b", "a b", "a\n", "\xc3\xa9"})
    EXPECT_FALSE(check_name(bad)) << bad;
  EXPECT_FALSE(check_name(std::string(101, 'x')));
  EXPECT_FALSE(check_name(std::string("a\0b", 3)));
  EXPECT_FALSE(process_folder("..", "trainer-0"));
  EXPECT_FALSE(process_folder("job", "../.."));
  ASSERT_TRUE(process_folder("job", "trainer-0"));
  EXPECT_EQ(process_folder("job", "trainer-0")->str(), "jobs/job/proc/trainer-0");
}

TEST(Root, AFolderThatIsALinkOrOpenToOthersIsRefused) {
  const test::TemporaryFolder folder;
  const std::string path = folder.make("root");
  const auto made = open_root(path);
  ASSERT_TRUE(made) << made.error().message;
  ASSERT_EQ(::symlink(path.c_str(), (folder.path() + "/link").c_str()), 0);
  const auto link = open_root(folder.path() + "/link");
  ASSERT_FALSE(link);
  EXPECT_EQ(link.error().code, Errc::kAuth) << link.error().message;
  for (const mode_t mode : {0720U, 0702U}) {
    ::chmod(path.c_str(), mode);
    const auto open = open_root(path);
    ASSERT_FALSE(open) << mode;
    EXPECT_EQ(open.error().code, Errc::kAuth);
  }
  ::chmod(path.c_str(), 0755);
  EXPECT_TRUE(open_root(path)) << "others may read";
}

TEST(Root, AFolderThatATeardownHasRemovedIsNotMadeAgain) {
  const test::TemporaryFolder folder;
  const auto gone = open_root(folder / "root");
  ASSERT_FALSE(gone);
  EXPECT_EQ(gone.error().code, Errc::kResource) << gone.error().message;
  EXPECT_FALSE(std::filesystem::exists(folder / "root"));
}

TEST(Root, AFileIsReplacedWholeAndReadUpToItsBound) {
  const test::TemporaryFolder folder;
  const auto root = open_root(folder.make("root"));
  ASSERT_TRUE(root);
  const auto path = SafePath::parse("jobs/one/key");
  ASSERT_TRUE(path);
  ASSERT_TRUE(replace_below(*root, *path, as_bytes("first")));
  ASSERT_TRUE(replace_below(*root, *path, as_bytes("second")));
  EXPECT_EQ(*read_below(*root, *path, 100), "second");
  EXPECT_FALSE(read_below(*root, *path, 3)) << "longer than allowed";
  EXPECT_EQ(*names_in(*root, "jobs/one"), (std::vector<std::string>{"key"})) << "no temporary file";
  EXPECT_TRUE(names_in(*root, "jobs/two")->empty());
}

}  // namespace
}  // namespace paddle::agent
