#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>

#include <gtest/gtest.h>

#include "cli/cluster/selection.h"
#include "tests/support/temporary_folder.h"

namespace paddle::cli {
namespace {

namespace fs = std::filesystem;

class CurrentClusterTest : public testing::Test {
 protected:
  CurrentClusterTest() {
    file_ = write_cluster("c.toml");
    ::setenv("HOME", folder_.path().c_str(), 1);
    ::unsetenv("XDG_CONFIG_HOME");
    ::unsetenv("PADDLECTL_CLUSTER");
    EXPECT_TRUE(remember_cluster(cluster_place(folder_.path()), file_));
  }
  std::string write_cluster(const std::string& name) const {
    return folder_.write(name, "name = \"t\"\n[[node]]\nname = \"n\"\nlauncher = \"local\"\n");
  }
  std::string subfolder(const std::string& name) const {
    fs::create_directories(folder_ / name);
    return folder_ / name;
  }
  // The current cluster's file, or the error.
  static std::string chosen(const std::string& directory) {
    const auto cluster = choose_cluster(directory, "");
    return cluster ? cluster->file : cluster.error().message;
  }
  std::string state() const { return folder_.path() + "/.paddlectl"; }

  test::TemporaryFolder folder_;
  std::string file_;
};

TEST_F(CurrentClusterTest, IsReadAgainUntilItIsForgotten) {
  EXPECT_EQ(choose_cluster(folder_.path(), "")->file, file_);
  forget_cluster(folder_.path(), "/another.toml");
  EXPECT_TRUE(choose_cluster(folder_.path(), "")) << "only that file is forgotten";
  forget_cluster(folder_.path(), file_);
  EXPECT_FALSE(fs::exists(state())) << "no empty folder is left";
  const auto none = choose_cluster(folder_.path(), "");
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, Errc::kUsage);
}

TEST_F(CurrentClusterTest, ForgettingKeepsFilesOfOthersInTheFolder) {
  folder_.write(".paddlectl/other", "x");
  folder_.write(".paddlectl/.paddlectl-made", "");
  forget_cluster(folder_.path(), file_);
  EXPECT_TRUE(fs::exists(state() + "/other"));
  EXPECT_TRUE(fs::exists(state() + "/.paddlectl-made"));
}

TEST_F(CurrentClusterTest, AFolderThatBootstrapMadeGoesWithItsMark) {
  folder_.write(".paddlectl/.paddlectl-made", "");
  forget_cluster(folder_.path(), file_);
  EXPECT_FALSE(fs::exists(state()));
}

TEST_F(CurrentClusterTest, FilesThatOthersMayWriteAreNotBelieved) {
  for (const std::string& open : {file_, state(), state() + "/current", folder_.path()}) {
    fs::permissions(open, fs::perms::others_write, fs::perm_options::add);
    const auto refused = choose_cluster(folder_.path(), "");
    ASSERT_FALSE(refused) << open;
    EXPECT_EQ(refused.error().code, Errc::kAuth) << open;
    EXPECT_NE(refused.error().message.find("can be written by all users"), std::string::npos)
        << refused.error().message;
    EXPECT_EQ(refused.error().hint, "chmod go-w " + open);
    EXPECT_FALSE(choose_cluster(folder_.path(), file_) && open == file_) << "named by the user";
    fs::permissions(open, fs::perms::others_write, fs::perm_options::remove);
    EXPECT_TRUE(choose_cluster(folder_.path(), "")) << open;
  }
}

TEST_F(CurrentClusterTest, WhatAnotherUserPlantsIsRefusedHereAndPassedOverAbove) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root gives files away";
  constexpr uid_t kNobody = 65534;
  fs::remove_all(state());
  const std::string open = subfolder("open");
  fs::permissions(open, fs::perms::all | fs::perms::sticky_bit);
  const std::string planted = write_cluster("open/planted.toml");
  ASSERT_TRUE(remember_cluster(cluster_place(open), planted));
  for (const std::string& name : {planted, cluster_place(open), open + "/.paddlectl"}) {
    ASSERT_EQ(::chown(name.c_str(), kNobody, kNobody), 0);
    const auto refused = choose_cluster(open, "");
    ASSERT_FALSE(refused) << name;
    EXPECT_EQ(refused.error().code, Errc::kAuth);
    EXPECT_NE(refused.error().message.find("belongs to user 65534"), std::string::npos)
        << refused.error().message;
    EXPECT_FALSE(choose_cluster(subfolder("open/below"), ""));
    ASSERT_EQ(::chown(name.c_str(), 0, 0), 0);
  }
  EXPECT_TRUE(choose_cluster(open, "")) << "a sticky folder as such is good";
  // A link to what is our own would choose among our clusters for us.
  fs::remove_all(open + "/.paddlectl");
  fs::create_directory_symlink(subfolder("ours"), open + "/.paddlectl");
  ASSERT_TRUE(remember_cluster(cluster_place(open), file_));
  ASSERT_TRUE(choose_cluster(open, ""));
  ASSERT_EQ(::lchown((open + "/.paddlectl").c_str(), kNobody, kNobody), 0);
  EXPECT_FALSE(choose_cluster(open, ""));
}

TEST_F(CurrentClusterTest, IsFoundFromSubfoldersAndTheNearestOneWins) {
  EXPECT_EQ(chosen(subfolder("a/b")), file_);
  const std::string other = write_cluster("other.toml");
  ASSERT_TRUE(remember_cluster(cluster_place(folder_ / "a"), other));
  EXPECT_EQ(chosen(folder_ / "a/b"), other);
  EXPECT_EQ(chosen(folder_.path()), file_);
  EXPECT_EQ(choose_cluster(folder_ / "a/b", "../../c.toml")->file, file_) << "--cluster wins";
  forget_cluster(folder_ / "a/b", other);
  EXPECT_EQ(chosen(folder_ / "a/b"), file_) << "the right one is forgotten";
}

TEST_F(CurrentClusterTest, TheSearchEndsAtTheHomeDirectory) {
  ::setenv("HOME", subfolder("home").c_str(), 1);
  EXPECT_TRUE(chosen(subfolder("home/x")).starts_with("no current cluster"));
  EXPECT_EQ(chosen(subfolder("elsewhere")), file_) << "outside it, up to the file system's end";
}

TEST_F(CurrentClusterTest, AParentsPlaceOfAnotherUserDoesNotCount) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can make files of others";
  ASSERT_EQ(::chown(cluster_place(folder_.path()).c_str(), 12345, 12345), 0);
  EXPECT_TRUE(chosen(subfolder("a")).starts_with("no current cluster"));
}

TEST_F(CurrentClusterTest, ThenComesTheVariableThenTheUsersDefault) {
  forget_cluster(folder_.path(), file_);
  ::setenv("XDG_CONFIG_HOME", (folder_ / "config").c_str(), 1);
  ASSERT_TRUE(remember_cluster(default_cluster_place(), file_));
  EXPECT_TRUE(fs::exists(folder_ / "config/paddlectl/current"));
  EXPECT_EQ(chosen(subfolder("a")), file_);
  const std::string other = write_cluster("other.toml");
  ::setenv("PADDLECTL_CLUSTER", "../other.toml", 1);
  EXPECT_EQ(chosen(folder_ / "a"), other) << "relative to the directory";
  ::setenv("PADDLECTL_CLUSTER", "/none.toml", 1);
  EXPECT_TRUE(chosen(folder_ / "a").starts_with("the current cluster (PADDLECTL_CLUSTER): "));
  ::unsetenv("PADDLECTL_CLUSTER");
  forget_cluster(folder_ / "a", file_);
  EXPECT_FALSE(fs::exists(folder_ / "config/paddlectl"));
}

TEST_F(CurrentClusterTest, AFileThatIsGoneIsNamedWithItsPlace) {
  fs::remove(file_);
  EXPECT_TRUE(chosen(subfolder("a")).starts_with("the current cluster (" + state() + "/current): "))
      << chosen(folder_ / "a");
}

TEST_F(CurrentClusterTest, APlaceThatCannotBeWrittenIsKnownBeforehand) {
  EXPECT_TRUE(check_place(cluster_place(folder_.path())));
  EXPECT_TRUE(check_place(folder_ / "deep/below/current"));
  folder_.write("file", "");
  const Status refused = check_place(folder_ / "file/.paddlectl/current");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::kResource);
  EXPECT_NE(refused.error().hint.find("--default"), std::string::npos);
}

using CurrentClusterDeathTest = CurrentClusterTest;

TEST_F(CurrentClusterDeathTest, WithoutADescriptorItIsNotCalledMissing) {
  const auto choose = [this] {
    const rlimit few{3, 3};
    ::setrlimit(RLIMIT_NOFILE, &few);
    const auto current = find_current(folder_.path());
    if (current) ::_exit(0);
    std::fprintf(stderr, "%s\n", current.error().message.c_str());
    ::_exit(static_cast<int>(current.error().code));
  };
  EXPECT_EXIT(choose(), testing::ExitedWithCode(static_cast<int>(Errc::kResource)),
              "current: Too many open files");
}

}  // namespace
}  // namespace paddle::cli
