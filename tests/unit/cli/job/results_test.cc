#include "cli/job/results.h"

#include <filesystem>

#include <gtest/gtest.h>

#include "tests/support/fake_cluster.h"
#include "tests/support/temporary_folder.h"

namespace paddle::cli {
namespace {

namespace fs = std::filesystem;

TEST(FetchResults, ASnapshotsManifestArrivesLast) {
  FakeCluster fake(1);
  ClusterSession session = fake.session();
  fake.node(0).files["jobs/j/output/pass-00000/MANIFEST"] = "manifest";
  fake.node(0).files["jobs/j/output/pass-00000/w"] = "weights";
  const test::TemporaryFolder folder;
  // Both names are one file here, which keeps the content written last.
  const std::string file = folder.write("j/pass-00000/w", "old");
  fs::create_symlink("w", folder / "j/pass-00000/MANIFEST");
  const auto stats = fetch_results(session, "j", folder.path());
  ASSERT_TRUE(stats) << stats.error().message;
  EXPECT_EQ(stats->files, 2U);
  EXPECT_EQ(test::TemporaryFolder::read(file), "manifest");
}

TEST(FetchResults, EachNodesLogsHaveAFolderAndTheirIndexStaysThere) {
  FakeCluster fake(2);
  ClusterSession session = fake.session();
  for (const char* name : {"train.log", "train.log.base", "train.log.times", "train.log.times.1"}) {
    fake.node(1).files["jobs/j/node_1/" + std::string(name)] = "x";
  }
  fake.node(1).files["jobs/j/output/pass-00000/w"] = "weights";
  const test::TemporaryFolder folder;
  const auto logs = fetch_results(session, "j", folder.path(), Wanted::kLogs);
  ASSERT_TRUE(logs);
  EXPECT_EQ(logs->files, 1U);
  EXPECT_TRUE(fs::exists(folder / "j/node_1/train.log"));
  EXPECT_FALSE(fs::exists(folder / "j/pass-00000"));
  EXPECT_FALSE(fetch_results(session, "../j", folder.path(), Wanted::kLogs));
}

TEST(ShownPath, IsRelativeBelowTheCurrentDirectoryExceptInJson) {
  FakeCluster fake(1);
  fake.context.directory = "/home/me";
  EXPECT_EQ(shown_path(fake.context, "/home/me/output/j"), "output/j");
  EXPECT_EQ(shown_path(fake.context, "/home/other/../j"), "/home/j");
  fake.console.set_json(true);
  EXPECT_EQ(shown_path(fake.context, "/home/me/output/j"), "/home/me/output/j");
}

}  // namespace
}  // namespace paddle::cli
