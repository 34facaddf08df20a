// report, with the nodes and without.
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "tests/unit/cli/commands/commands_fixture.h"

namespace paddle::cli {
namespace {

TEST_F(CommandsTest, AReportIsMadeAtTheEndAndAtAnyTimeAndWithoutTheNodes) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  ASSERT_EQ(train(), 0);
  EXPECT_TRUE(err_has("report: output/job1/report.html\n")) << err_.str();
  const std::string page = *read_file(folder_ + "/output/job1/report.html");
  EXPECT_NE(page.find("held-out cost 0.5"), std::string::npos);
  EXPECT_NE(page.find("size = 4"), std::string::npos) << "the configuration";
  ASSERT_EQ(run({"report", "--json"}), 0) << err_.str();
  EXPECT_EQ(out_.str(), "{\"job\": \"job1\", \"report\": \"" + folder_ +
                            "/output/job1/report.html\", \"scalars\": 2}\n");
  for (FakeNode& node : nodes_) node.unreachable = true;
  fs::remove(folder_ + "/output/job1/report.html");
  ASSERT_EQ(run({"report", "job1"}), 0) << err_.str();
  EXPECT_EQ(out_.str(), "output/job1/report.html\n");
  EXPECT_TRUE(err_has("made from the files in output/job1, without the nodes")) << err_.str();
  EXPECT_EQ(run({"report", "other"}), 4);
  EXPECT_EQ(run({"report", "../x"}), 2);
}

constexpr uid_t kNobody = 65534;

// Another user has prepared the folder with a job's records, and could exchange it for a link.
TEST_F(CommandsTest, AReportIsNotWrittenWhereAFetchIsRefused) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  ASSERT_EQ(train(), 0);
  const test::TemporaryFolder elsewhere;
  const auto copy_to = [&](const std::string& output) {
    fs::create_directories(output);
    fs::copy(folder_ + "/output/job1", output + "/job1", fs::copy_options::recursive);
    fs::remove(output + "/job1/report.html");
    fs::remove_all(output + "/job1/tensorboard");
  };
  const auto refused = [&](const std::string& output, int code, const char* why) {
    for (const bool unreachable : {false, true}) {
      for (FakeNode& node : nodes_) node.unreachable = unreachable;
      EXPECT_EQ(run({"report", "job1", "--output", output}), code) << err_.str();
      EXPECT_TRUE(err_has(why)) << err_.str();
      EXPECT_FALSE(fs::exists(output + "/job1/report.html")) << output;
      EXPECT_FALSE(fs::exists(output + "/job1/tensorboard")) << output;
    }
  };
  const std::string open = elsewhere / "open";
  copy_to(open);
  ASSERT_EQ(::chmod(open.c_str(), 0777), 0);
  refused(open, 5, "can be written by all users");
  refused(open + "/job1", 5, "can be written by all users");
  ASSERT_EQ(::chmod((open + "/job1").c_str(), 0777), 0);
  ASSERT_EQ(::chmod(open.c_str(), 0755), 0);
  refused(open, 5, "can be written by all users");
  copy_to(elsewhere / "target");
  fs::create_directory_symlink(elsewhere / "target", folder_ + "/link");
  refused("link", 6, "is a link, and results are not written through links");
  fs::create_directories(folder_ + "/in");
  fs::create_directory_symlink(elsewhere / "target/job1", folder_ + "/in/job1");
  refused("in", 6, "is a link, and results are not written through links");
  EXPECT_FALSE(fs::exists(elsewhere / "target/job1/report.html"));
  if (::geteuid() == 0) {  // only root gives folders away
    const std::string theirs = elsewhere / "theirs";
    copy_to(theirs);
    ASSERT_EQ(::chown(theirs.c_str(), kNobody, kNobody), 0);
    refused(theirs, 5, "belongs to user 65534");
    const std::string made = elsewhere / "made";
    copy_to(made);
    ASSERT_EQ(::chown((made + "/job1").c_str(), kNobody, kNobody), 0);
    refused(made, 6, "belongs to another user");
  }
  // Outside the current directory, a link that the user names is the user's own.
  fs::create_directory_symlink(elsewhere / "target", elsewhere / "own");
  EXPECT_EQ(run({"report", "job1", "--output", elsewhere / "own"}), 0) << err_.str();
  EXPECT_TRUE(fs::exists(elsewhere / "target/job1/report.html"));
}

TEST_F(CommandsTest, CurvesAreNotWrittenIntoAFolderThatOthersMayWriteTo) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  ASSERT_EQ(train(), 0);
  ASSERT_EQ(::chmod((folder_ + "/output/job1/tensorboard").c_str(), 0777), 0);
  EXPECT_EQ(run({"report", "job1"}), 5);
  EXPECT_TRUE(err_has("tensorboard can be written by all users")) << err_.str();
}

// The files here are for nodes that are gone. They hide no link that a fetch refuses.
TEST_F(CommandsTest, AReportIsNotMadeFromTheFilesHereWhereAFetchFindsALink) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  ASSERT_EQ(train(), 0);
  const test::TemporaryFolder elsewhere;
  fs::remove(folder_ + "/output/job1/report.html");
  fs::remove_all(folder_ + "/output/job1/node_0");
  fs::create_directory_symlink(elsewhere.path(), folder_ + "/output/job1/node_0");
  EXPECT_EQ(run({"report", "job1"}), 6) << err_.str();
  EXPECT_TRUE(err_has("node_0 is a link, and results are not written through links"));
  EXPECT_FALSE(fs::exists(folder_ + "/output/job1/report.html"));
  EXPECT_TRUE(fs::is_empty(elsewhere.path()));
}

}  // namespace
}  // namespace paddle::cli
