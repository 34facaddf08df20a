// train --from: the parameters of a snapshot to start with.
#include "tests/support/snapshot_manifest.h"
#include "tests/unit/cli/commands/commands_fixture.h"

namespace paddle::cli {
namespace {

TEST_F(CommandsTest, TrainFromASnapshotPushesItToTrainer0AlongWithItsBase) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  write("old/pass-00003/MANIFEST", test::snapshot_manifest(4, 9));
  write("old/pass-00003/w", "full");
  write("old/pass-00004/MANIFEST", test::snapshot_manifest(5, 9, "pass-00003"));
  write("old/pass-00004/model/job.toml", "seed = 1");
  ASSERT_EQ(run({"train", "--name", "job1", "--from", "old/pass-00004/", "w"}), 0) << err_.str();
  EXPECT_TRUE(nodes_[0].files.contains("jobs/job1/from/pass-00004/model/job.toml"));
  EXPECT_TRUE(nodes_[0].files.contains("jobs/job1/from/pass-00004/MANIFEST"));
  EXPECT_TRUE(nodes_[0].files.contains("jobs/job1/from/pass-00003/w"));
  EXPECT_FALSE(nodes_[1].files.contains("jobs/job1/from/pass-00004/MANIFEST"));
  const auto starts_from = [this](std::size_t node, const std::string& trainer) {
    for (const std::string& argument : nodes_[node].specs[trainer].arguments)
      if (argument.starts_with("--init_model_path=")) return argument.substr(18);
    return std::string();
  };
  EXPECT_EQ(starts_from(0, "trainer-0"), "{root}/jobs/job1/from/pass-00004");
  EXPECT_EQ(starts_from(1, "trainer-1"), "");
  // A snapshot of a job is used where it lies, or fetched and pushed.
  ASSERT_EQ(run({"train", "--name", "job2", "--from", "job1:pass-00000", "w"}), 0) << err_.str();
  EXPECT_EQ(starts_from(0, "trainer-0"), "{root}/jobs/job1/output/pass-00000");
  nodes_[1].files["jobs/moved/output/pass-00007/MANIFEST"] = test::snapshot_manifest(8, 9);
  ASSERT_EQ(run({"train", "--name", "job3", "--from", "moved", "w"}), 0) << err_.str();
  EXPECT_EQ(starts_from(0, "trainer-0"), "{root}/jobs/job3/from/pass-00007");
  EXPECT_TRUE(nodes_[0].files.contains("jobs/job3/from/pass-00007/MANIFEST"));
}

// Only such a program knows its checkpoints: MANIFEST only says that one is whole.
TEST_F(CommandsTest, TrainFromACheckpointOfAProgramOfOnesOwnReadsNoManifest) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  write("w/job.toml", "[trainer]\ncommand = [\"./train\"]\n");
  write("old/pass-00003/MANIFEST", "any text");
  write("old/pass-00003/weights", "w");
  ASSERT_EQ(run({"train", "--name", "job1", "--from", "old/pass-00003", "w"}), 0) << err_.str();
  EXPECT_TRUE(nodes_[0].files.contains("jobs/job1/from/pass-00003/weights"));
}

TEST_F(CommandsTest, TrainFromNoSnapshotSaysWhichThereAre) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  ASSERT_EQ(train(), 0) << err_.str();
  const auto refuses = [this](const std::string& from, const std::string& message,
                              const std::string& hint) {
    EXPECT_EQ(run({"train", "--name", "job2", "--from", from, "w"}), 2) << from;
    EXPECT_TRUE(err_has(message)) << err_.str();
    EXPECT_TRUE(err_has(hint)) << err_.str();
  };
  refuses("output/job1", "--from output/job1 is not a snapshot: it has no file MANIFEST",
          "use a snapshot in it, pass-00000: --from output/job1/pass-00000");
  refuses("w", "--from w is not a snapshot", "name the folder of a pass");
  refuses("job1:pass-00007", "the nodes have no snapshot of pass 8 (pass-00007) of job job1",
          "they have pass-00000");
  refuses("job1:x", "unknown --pass 'x'", "all, or the name of a snapshot");
  refuses("job7", "the nodes have no snapshot of a job 'job7'", "list the jobs: paddlectl jobs");
  refuses("../else/pass-00001", "the folder does not exist, and this is not a valid job name",
          "--from word2vec-20260101-120000:pass-00002");
  write("output/gone/pass-00002/MANIFEST", "m");
  refuses("gone", "no snapshot of a job 'gone'", "--from output/gone/pass-00002");
  write("delta/pass-00002/MANIFEST", test::snapshot_manifest(3, 9, "pass-00001"));
  refuses("delta/pass-00002", "is a delta of pass-00001, which is not beside it", "fetch both");
  const auto fails = [this](const std::string& from, int code, const std::string& message,
                            const std::string& hint) {
    EXPECT_EQ(run({"train", "--name", "job2", "--from", from, "w"}), code) << from;
    EXPECT_TRUE(err_has(message)) << err_.str();
    EXPECT_TRUE(err_has(hint)) << err_.str();
  };
  fails("output/gone/pass-00002", 6, "--from output/gone/pass-00002: MANIFEST: expected last line",
        "fetch it again");
  write("old/pass-00001/MANIFEST", test::manifest_of_another_format());
  fails("old/pass-00001", 3, "--from old/pass-00001: MANIFEST: it has snapshot format 1, but this",
        "use the release that wrote it");
  EXPECT_EQ(run({"train", "--resume", "--from", "output/job1/pass-00000", "w"}), 2);
  EXPECT_FALSE(nodes_[0].specs.contains("job2"));
  EXPECT_FALSE(nodes_[0].files.contains("jobs/job2/workspace/job.toml"));
}

}  // namespace
}  // namespace paddle::cli
