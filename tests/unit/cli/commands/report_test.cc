// report, with the nodes and without.
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

}  // namespace
}  // namespace paddle::cli
