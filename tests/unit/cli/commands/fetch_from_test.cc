// `fetch --from`: results in a folder of this machine.
#include "base/fd.h"
#include "tests/unit/cli/commands/commands_fixture.h"

namespace paddle::cli {
namespace {

class FetchFrom : public CommandsTest {
 protected:
  // Files of two pods: one was started twice, one has no record of its own.
  void write_volume(const std::string& job = "v/output/words") {
    write(job + "/node_0/train.log", "I1129 18:09:09.861016 trainer-0] trainer 0 of 2\n");
    write(job + "/node_0/metrics.jsonl",
          "{\"kind\":\"test\",\"pass\":0,\"samples\":1,\"cost\":0.25,\"unix_ms\":1700000001000}\n"
          "{\"kind\":\"test\",\"pass\":1,\"samples\":1,\"cost\":0.5,\"unix_ms\":1700000002000}\n");
    const auto line = [](const char* role, const char* rest, const char* log) {
      return std::string("{\"node\":\"words-0\",\"role\":\"") + role + "\"," + rest +
             ",\"log\":\"" + log + "\"}\n";
    };
    write(job + "/node_0/processes.jsonl",
          line("trainer-0",
               "\"state\":\"running\",\"failed\":0,\"started_unix_ms\":1700000000000,"
               "\"ended_unix_ms\":0,\"incarnation\":1",
               "node_0/train.log") +
              "{broken\n" +
              line("trainer-0",
                   "\"state\":\"exited with code 4\",\"failed\":1,\"started_unix_ms\":"
                   "1700000001000,\"ended_unix_ms\":1700000003000,\"incarnation\":2",
                   "node_0/train.log") +
              line("trainer-7", "\"state\":\"done\"", "../../x/train.log"));
    write(job + "/node_0/machines.jsonl", "{\"node\":\"words-0\",\"cores\":3}\n");
    write(job + "/node_2/server.log", "READY\nI1129 18:09:09.861016 pserver-5] serving\n");
    for (const char* const pass : {"pass-00000", "pass-00001"}) {
      write(job + "/" + pass + "/MANIFEST", "m");
      write(job + "/" + pass + "/_w0", pass);
      write(job + "/" + pass + "/model/job.toml", std::string("name = \"") + pass + "\"\n");
    }
    write(job + "/pass-00002.tmp/_w0", "half");
    write(job + "/.ended", "uid");
    write(job + "/note.txt", "mine");
    write(job + "/settings.jsonl", "not this machine's");
    write("secret", "secret");
    fs::create_symlink(folder_ + "/secret", folder_ + "/" + job + "/link");
  }
  std::string text_of(const std::string& path) const {
    return test::TemporaryFolder::read(folder_ + "/" + path);
  }
  bool has(const std::string& path) const { return fs::exists(folder_ + "/" + path); }
};

TEST_F(FetchFrom, CopiesWhatAFetchFromNodesBringsAndMakesTheReport) {
  write_volume();
  // The snapshots of this test are no real ones, so they are damaged.
  EXPECT_EQ(run({"fetch", "--from", "v"}), 6) << err_.str();
  EXPECT_TRUE(err_has("its MANIFEST is missing or damaged; it was copied as it is")) << err_.str();
  ASSERT_EQ(run({"fetch", "--from", "v", "--logs"}), 0) << err_.str();
  EXPECT_TRUE(err_has("report: output/words/report.html")) << err_.str();
  for (const char* const path : {"node_0/train.log", "node_0/metrics.jsonl", "node_2/server.log",
                                 "pass-00001/_w0", "note.txt", "report.html", "tensorboard"})
    EXPECT_TRUE(has(std::string("output/words/") + path)) << path;
  for (const char* const path :
       {"pass-00000", "pass-00002.tmp", ".ended", "settings.jsonl", "link"})
    EXPECT_FALSE(has(std::string("output/words/") + path)) << path;
  const std::string page = text_of("output/words/report.html");
  EXPECT_NE(page.find("held-out cost 0.5"), page.npos);
  EXPECT_NE(page.find("pass-00001"), page.npos) << "the configuration of the last snapshot";
  const std::string processes = text_of("output/words/processes.jsonl");
  EXPECT_NE(processes.find("\"role\": \"pserver-5\""), processes.npos) << "from its log";
  EXPECT_NE(processes.find("exited with code 4"), processes.npos) << processes;
  EXPECT_EQ(processes.find("running"), processes.npos) << "the newest line counts: " << processes;
  EXPECT_EQ(processes.find("trainer-7"), processes.npos) << "not a log of this node";
  EXPECT_EQ(text_of("output/words/machines.jsonl"), "{\"node\":\"words-0\",\"cores\":3}\n");
}

TEST_F(FetchFrom, TakesTheSnapshotsThatAreAskedForOnce) {
  write_volume();
  EXPECT_EQ(run({"fetch", "--from", "v", "--pass", "best"}), 6) << err_.str();
  EXPECT_TRUE(has("output/words/pass-00000/_w0")) << "it has the lowest cost";
  EXPECT_FALSE(has("output/words/pass-00001"));
  EXPECT_EQ(run({"fetch", "--from", "v", "--pass", "pass-00007"}), 2);
  EXPECT_TRUE(err_has("the volume has no snapshot of pass 8 (pass-00007) of job words"));
  EXPECT_TRUE(err_has("it has pass-00000, pass-00001;")) << err_.str();
  ASSERT_EQ(run({"fetch", "--from", "v", "--logs", "--json"}), 0) << err_.str();
  EXPECT_NE(out_.str().find("\"files_fetched\": 0"), std::string::npos)
      << "they are here already: " << out_.str();
  write("v/output/words/node_2/server.log", "I1129 18:09:09.861016 pserver-5] more\n");
  ASSERT_EQ(run({"fetch", "--from", "v", "--logs", "--json"}), 0) << err_.str();
  EXPECT_NE(out_.str().find("\"files_fetched\": 1"), std::string::npos) << out_.str();
}

TEST_F(FetchFrom, FindsTheJob) {
  write_volume();
  write("v/output/other/node_0/train.log", "");
  EXPECT_EQ(run({"fetch", "--from", "v", "--logs"}), 2);
  EXPECT_TRUE(err_has("has results of several jobs: other, words")) << err_.str();
  EXPECT_TRUE(err_has("--job other")) << err_.str();
  EXPECT_EQ(run({"fetch", "--from", "v", "--logs", "--job", "words"}), 0) << err_.str();
  EXPECT_EQ(run({"fetch", "--from", "v/output/other", "--logs"}), 0) << err_.str();
  EXPECT_TRUE(has("output/other/report.html"));
  EXPECT_EQ(run({"fetch", "--from", "v", "--logs", "--job", "absent"}), 2);
  EXPECT_TRUE(err_has("v has no results of job absent")) << err_.str();
  EXPECT_EQ(run({"fetch", "--from", "nowhere"}), 2);
  write("efs/paddle-cluster-job/output/node_0/server.log", "");
  EXPECT_EQ(run({"fetch", "--from", "efs", "--logs"}), 0) << "document 004 " << err_.str();
  EXPECT_TRUE(has("output/paddle-cluster-job/node_0/server.log"));
  EXPECT_EQ(run({"fetch", "--from", "v", "--cluster", "c.toml"}), 2) << "one place at a time";
}

TEST_F(FetchFrom, AReportIsMadeInPlaceWhereTheVolumeIsTheWorkingFolder) {
  write_volume("output/words");
  ASSERT_EQ(run({"fetch", "--from", ".", "--logs"}), 0) << err_.str();
  EXPECT_TRUE(has("output/words/report.html"));
  EXPECT_EQ(text_of("output/words/settings.jsonl"), "not this machine's");
}

}  // namespace
}  // namespace paddle::cli
