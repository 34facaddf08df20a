#include "engine/snapshot/resume_point.h"

#include "tests/unit/engine/snapshot/snapshot_fixture.h"

namespace paddle::snapshot {
namespace {

class ResumePointTest : public SnapshotTest {
 protected:
  void write_named(const std::string& name, std::uint64_t pass, std::uint64_t step) {
    SnapshotInfo facts = info();
    facts.pass = pass;
    facts.step = step;
    auto writer = SnapshotWriter::create(root_ + "/" + name, facts);
    ASSERT_TRUE(writer) << writer.error().message;
    const std::vector<float> value = {static_cast<float>(pass), -2.5F};
    const std::vector<float> state = {1, 2, 3, 4};
    ASSERT_TRUE(writer->add_dense(dense_spec(), value, state, 17));
    ASSERT_TRUE(writer->finish());
  }
  std::string newest() {
    const auto found = take_newest_whole(root_, kernel_file_system(), &told_);
    EXPECT_TRUE(found) << found.error().message;
    if (!found || !*found) return "";
    return std::filesystem::path((*found)->directory()).filename();
  }
  void change(const std::string& file, std::size_t at) const {
    std::string bytes = content(root_ + "/" + file);
    bytes.at(at) = static_cast<char>(bytes.at(at) ^ 1);
    overwrite(root_ + "/" + file, bytes);
  }

  std::string told_ = "earlier";
};

TEST_F(ResumePointTest, TheNewestHasTheMostPassesAndSteps) {
  EXPECT_EQ(newest(), "");
  write_named("pass-00001", 2, 20);
  write_named("pass-00000", 1, 10);
  EXPECT_EQ(newest(), "pass-00001");
  // A stop in the third pass; its name sorts before that of the pass.
  write_named("pass-00000-stopped", 2, 25);
  EXPECT_EQ(newest(), "pass-00000-stopped");
  // Neither an unfinished one counts nor an empty or another folder, nor one that was set aside.
  for (const char* const name : {"pass-00009.tmp", "pass-00009.damaged", "pass-00009.damaged-2"}) {
    std::filesystem::copy(root_ + "/pass-00001", root_ + "/" + name);
  }
  std::filesystem::create_directory(root_ + "/pass-00008");
  overwrite(root_ + "/pass-notes.txt", "mine");
  write_named("other", 9, 90);
  EXPECT_EQ(newest(), "pass-00000-stopped");
  EXPECT_EQ(take_newest_whole(root_ + "/absent").error().code, Errc::kResource);
}

TEST_F(ResumePointTest, TheOneBeforeIsTakenWhereTheNewestIsDamaged) {
  const auto damages = std::vector<std::function<void()>>{
      [&] { change("pass-00001/_fc.wbias", 5); },
      [&] { change("pass-00001/MANIFEST", 40); },
      [&] { overwrite(root_ + "/pass-00001/MANIFEST", ""); },
      [&] { std::filesystem::remove(root_ + "/pass-00001/MANIFEST"); },
      [&] { std::filesystem::remove(root_ + "/pass-00001/_fc.wbias.state"); },
  };
  for (std::size_t i = 0; i < damages.size(); ++i) {
    write_named("pass-00000", 1, 10);
    write_named("pass-00001", 2, 20);
    damages[i]();
    ::testing::internal::CaptureStderr();
    EXPECT_EQ(newest(), "pass-00000");
    EXPECT_EQ(told_.find("pass-00000, since pass-00001 is damaged: "), 0U) << told_;
    EXPECT_EQ(told_.find(root_), std::string::npos) << told_;
    const std::string log = ::testing::internal::GetCapturedStderr();
    EXPECT_NE(log.find("pass-00001"), std::string::npos) << log;
    EXPECT_NE(log.find("training continues from " + root_ + "/pass-00000"), std::string::npos)
        << log;
    // It is kept, and its name is free for training to save under it again.
    const std::string aside =
        i == 0 ? "pass-00001.damaged" : fmt::format("pass-00001.damaged-{}", i + 1);
    EXPECT_TRUE(names().contains(aside)) << aside;
    EXPECT_FALSE(names().contains("pass-00001"));
    EXPECT_NE(log.find(aside), std::string::npos) << log;
  }
}

TEST_F(ResumePointTest, SeveralDamagedOnesArePassedOverAndOlderOnesStay) {
  write_named("pass-00000", 1, 10);
  write_named("pass-00001", 2, 20);
  write_named("pass-00002-000003", 2, 23);
  write_named("pass-00002", 3, 30);
  change("pass-00000/_fc.wbias", 5);
  change("pass-00002-000003/MANIFEST", 9);
  change("pass-00002/MANIFEST", 9);
  EXPECT_EQ(newest(), "pass-00001");
  EXPECT_EQ(names(), (std::set<std::string>{"pass-00000", "pass-00001", "pass-00002.damaged",
                                            "pass-00002-000003.damaged"}));
}

// A MANIFEST of another pass lies about the progress; a name alone proves nothing.
TEST_F(ResumePointTest, OneWithTheManifestOfAnotherIsTold) {
  for (const int pass : {0, 1, 2})
    write_named(fmt::format("pass-{:05}", pass), std::uint64_t(pass) + 1, 10);
  overwrite(root_ + "/pass-00002/MANIFEST", content(root_ + "/pass-00000/MANIFEST"));
  EXPECT_EQ(newest(), "pass-00001");
  EXPECT_EQ(told_.find("pass-00001, since pass-00002 is damaged: "), 0U) << told_;
  EXPECT_TRUE(names().contains("pass-00002.damaged"));
  EXPECT_EQ(newest(), "pass-00001");
  EXPECT_EQ(told_, "") << "it is the newest now";
}

TEST_F(ResumePointTest, ADeltaGoesWithItsBase) {
  write_delta();
  write_named("pass-00002", 1, 10);
  change("pass-00001/my table.sparse-00000", 5);  // the base
  EXPECT_EQ(newest(), "pass-00002");
  EXPECT_EQ(names(),
            (std::set<std::string>{"pass-00002", "pass-00001.damaged", "pass-00000.damaged"}));
}

TEST_F(ResumePointTest, WithoutAWholeOneNothingBeginsAnewOrIsRenamed) {
  write_named("pass-00000", 1, 10);
  write_named("pass-00001", 2, 20);
  change("pass-00000/_fc.wbias", 5);
  overwrite(root_ + "/pass-00001/MANIFEST", "");
  const auto found = take_newest_whole(root_);
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, Errc::kData);
  EXPECT_NE(found.error().message.find("no snapshot in " + root_ + " is whole"), std::string::npos)
      << found.error().message;
  EXPECT_NE(found.error().message.find("pass-00001"), std::string::npos) << found.error().message;
  for (const char* way : {"--from_scratch", "paddlectl train --resume", "another --name"})
    EXPECT_NE(found.error().hint.find(way), std::string::npos) << way;
  EXPECT_EQ(names(), (std::set<std::string>{"pass-00000", "pass-00001"}));
}

TEST_F(ResumePointTest, SnapshotsAreSetAsideTogether) {
  EXPECT_EQ(set_snapshots_aside(root_).value(), "");
  write_named("pass-00000", 1, 10);
  write_named("pass-00001", 2, 20);
  overwrite(root_ + "/pass-00001/MANIFEST", "");
  overwrite(root_ + "/notes", "mine");
  overwrite(root_ + "/BEST", "pass-00000\n");
  overwrite(root_ + "/TESTS", "pass=0\n");
  EXPECT_EQ(set_snapshots_aside(root_).value(), root_ + "/earlier-1");
  EXPECT_EQ(names(), (std::set<std::string>{"notes", "earlier-1"}));
  EXPECT_TRUE(std::filesystem::exists(root_ + "/earlier-1/pass-00001/_fc.wbias"));
  EXPECT_TRUE(std::filesystem::exists(root_ + "/earlier-1/BEST"));
  EXPECT_TRUE(std::filesystem::exists(root_ + "/earlier-1/TESTS"));
  write_named("pass-00000", 1, 10);
  EXPECT_EQ(set_snapshots_aside(root_).value(), root_ + "/earlier-2");
  EXPECT_TRUE(SnapshotReader::open(root_ + "/earlier-2/pass-00000"));
}

}  // namespace
}  // namespace paddle::snapshot
