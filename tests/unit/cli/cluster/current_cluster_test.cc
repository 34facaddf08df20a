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
    file_ = folder_.write("c.toml", "name = \"t\"\n[[node]]\nname = \"n\"\nlauncher = \"local\"\n");
    EXPECT_TRUE(remember_cluster(folder_.path(), file_));
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

}  // namespace
}  // namespace paddle::cli
