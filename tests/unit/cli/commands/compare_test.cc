// `paddlectl compare`, from output folders and with the nodes.
#include <filesystem>

#include "base/fd.h"
#include "cli/cluster/program.h"
#include "tests/support/compared_jobs.h"
#include "tests/unit/cli/commands/commands_fixture.h"

namespace paddle::cli {
namespace {

class CompareTest : public CommandsTest {
 protected:
  // A fetched job, in the folder of results.
  void ended(test::EndedJob job) {
    job.name = "output/" + job.name;
    test::write_ended_job(temporary_, job);
  }
  // A job that ran on the nodes, and whose results were never fetched.
  void train_on_nodes(const std::string& job, std::vector<std::string> more = {}) {
    if (!std::exchange(is_up_, true)) {
      EXPECT_EQ(run({"up", "c.toml"}), 0) << err_.str();
    }
    more.insert(more.begin(), {"train", "--name", job});
    more.emplace_back("w");
    ASSERT_EQ(run(more), 0) << err_.str();
    fs::remove_all(folder_ + "/output/" + job);
  }

  bool is_up_ = false;
};

TEST_F(CompareTest, NeedsOnlyTheFoldersOfJobs) {
  ended({.name = "a", .auc = 0.7});
  ended({.name = "b", .rate = "0.2", .auc = 0.8});
  ASSERT_EQ(run({"compare", "a", "b", "a"}), 0) << err_.str();
  EXPECT_TRUE(out_has("optimizer.learning_rate  0.1")) << out_.str();
  EXPECT_TRUE(out_has("0.8, pass 2 *")) << out_.str();
  EXPECT_TRUE(out_has("auc, on held-out data, by batches\n")) << out_.str();
  EXPECT_TRUE(out_has("  a  b\n  b  a\n")) << "the best first, each once: " << out_.str();
  EXPECT_EQ(err_.str(), "");
}

TEST_F(CompareTest, FetchesAJobThatIsOnlyOnTheNodes) {
  train_on_nodes("job1", {"--set", "train.batch_size=9"});
  ended({.name = "here"});
  ASSERT_EQ(run({"compare", "here", "job1"}), 0) << err_.str();
  EXPECT_TRUE(out_has("train.batch_size")) << out_.str();
  EXPECT_TRUE(fs::exists(folder_ + "/output/job1/report.html"));
  for (FakeNode& node : nodes_) node.unreachable = true;
  ASSERT_EQ(run({"compare", "here", "job1"}), 0) << "all is here now: " << err_.str();
  EXPECT_TRUE(out_has("--pservers")) << out_.str();
}

TEST_F(CompareTest, AJobThatWasStartedSinceIsFetchedAgainOrNamed) {
  train_on_nodes("job1");
  ASSERT_EQ(run({"report", "job1"}), 0) << err_.str();
  ended({.name = "here"});
  write("output/job1/settings.jsonl", "{\"kind\": \"start\"}\n");
  fs::last_write_time(
      folder_ + "/output/job1/settings.jsonl",
      fs::last_write_time(folder_ + "/output/job1/processes.jsonl") + std::chrono::seconds(1));
  for (FakeNode& node : nodes_) node.unreachable = true;
  ASSERT_EQ(run({"compare", "here", "job1"}), 0) << err_.str();
  EXPECT_TRUE(err_has("job1 is compared as of its last fetch: ")) << err_.str();
}

TEST_F(CompareTest, TakesAllJobsWithATagHereAndOnTheNodes) {
  train_on_nodes("job1", {"--tag", "lr", "--tag", "x"});
  train_on_nodes("job2", {"--tag", "x"});
  ended({.name = "a", .tags = {"lr", "y"}});
  ended({.name = "b", .tags = {"z"}});
  ASSERT_EQ(run({"compare", "--tag", "lr"}), 0) << err_.str();
  EXPECT_TRUE(out_has("a  ")) << out_.str();
  EXPECT_TRUE(out_has("job1")) << out_.str();
  EXPECT_FALSE(out_has("job2")) << out_.str();
  ASSERT_EQ(run({"compare", "--tag", "lr", "b", "--csv", "-"}), 0) << err_.str();
  EXPECT_TRUE(out_has("\r\nb,done,z,")) << out_.str();
  EXPECT_TRUE(out_has("\r\njob1,done,lr x,")) << out_.str();
  EXPECT_EQ(run({"compare", "--tag", "no"}), 2);
  EXPECT_TRUE(err_has("no job has the tag no")) << err_.str();
  for (FakeNode& node : nodes_) node.unreachable = true;
  ASSERT_EQ(run({"compare", "--tag", "y"}), 0) << err_.str();
  EXPECT_TRUE(err_has("jobs of these nodes are not compared: node n-0: ")) << err_.str();
  EXPECT_TRUE(
      err_has("only one job: no setting differs; name a second one, or see its page: "
              "paddlectl report a\n"))
      << err_.str();
}

TEST_F(CompareTest, WithoutAClusterTakesTheTaggedJobsHere) {
  ended({.name = "a", .tags = {"lr"}});
  ended({.name = "b", .tags = {"lr"}});
  ASSERT_EQ(run({"compare", "--tag", "lr"}), 0) << err_.str();
  EXPECT_EQ(err_.str(), "");
}

TEST_F(CompareTest, AClusterFileThatCannotBeReadIsNamed) {
  train_on_nodes("a", {"--tag", "lr"});
  write("c.toml", "name = \n");
  EXPECT_NE(run({"compare", "--tag", "other"}), 0);
  EXPECT_TRUE(err_has("c.toml")) << err_.str();
  EXPECT_FALSE(err_has("no job has the tag")) << err_.str();
  ended({.name = "b", .tags = {"mine"}});
  EXPECT_EQ(run({"compare", "--tag", "mine"}), 0) << err_.str();
  EXPECT_TRUE(err_has("jobs of these nodes are not compared: ")) << err_.str();
}

TEST_F(CompareTest, HelpsWithWrongNames) {
  ended({.name = "first-run"});
  ended({.name = "second-run"});
  EXPECT_EQ(run({"compare", "first-run", "second-rum"}), 2);
  EXPECT_TRUE(err_has("job second-rum is not in output, did you mean 'second-run'?: "))
      << err_.str();
  EXPECT_EQ(run({"compare"}), 2);
  EXPECT_TRUE(err_has("no job is named")) << err_.str();
  EXPECT_EQ(run({"compare", "../x"}), 2);
  train_on_nodes("other");
  EXPECT_EQ(run({"compare", "first-run", "absent"}), 2);
  EXPECT_TRUE(err_has("job absent is not in output: this cluster has no job 'absent'"))
      << err_.str();
  EXPECT_TRUE(err_has("jobs here: other")) << err_.str();
}

TEST_F(CompareTest, NamesJobsWithoutFigures) {
  ended({.name = "a"});
  ended({.name = "b"});
  write("output/b/node_0/metrics.jsonl", "");
  ASSERT_EQ(run({"compare", "a", "b"}), 0) << err_.str();
  EXPECT_TRUE(err_has("no figures yet of b: metrics begin with the first log point\n"))
      << err_.str();
}

TEST_F(CompareTest, WritesAPageAndATable) {
  ended({.name = "a", .note = "</script><b>"});
  ended({.name = "b", .rate = "0.2"});
  ASSERT_EQ(run({"compare", "a", "b", "--html", "page.html", "--csv", "table.csv"}), 0)
      << err_.str();
  EXPECT_TRUE(err_has("page: page.html\ntable: table.csv\n")) << err_.str();
  const std::string page = *read_file(folder_ + "/page.html");
  EXPECT_NE(page.find("<title>2 jobs compared</title>"), page.npos);
  EXPECT_NE(page.find("script-src 'sha256-"), page.npos);
  EXPECT_EQ(page.find("</script><b>"), page.npos);
  EXPECT_EQ(page.find(folder_), page.npos) << "no path of this machine";
  EXPECT_TRUE(read_file(folder_ + "/table.csv")->starts_with("job,state,"));
  EXPECT_EQ(run({"compare", "a", "b", "--csv", "-", "--json"}), 2);
  EXPECT_NE(run({"compare", "a", "b", "--html", "nowhere/page.html"}), 0);
}

// The layout and the lines of MLflow's file store: mlflow/store/tracking/file_store.py.
TEST_F(CompareTest, IsExportedToTheFileStoreOfMlflow) {
  if (!fs::exists("/usr/bin/python3")) GTEST_SKIP() << "no python3 here";
  ended({.name = "a", .tags = {"lr", "size=3", "mlflow.runName"}, .note = "caf\xc3\xa9: \"n\""});
  write(
      "output/a/node_0/metrics.jsonl",
      "{\"kind\":\"train\",\"pass\":0,\"batch\":5,\"cost\":2,\"unix_ms\":1700000000001}\n{broken\n"
      "{\"kind\":\"train\",\"pass\":1,\"batch\":4,\"cost\":1.5,\"unix_ms\":1700000000002}\n"
      "{\"kind\":\"test\",\"pass\":1,\"batch\":4,\"auc\":NaN,\"../../"
      "x\":1,\"unix_ms\":1700000000003}\n");
  ASSERT_EQ(run({"compare", "a", "--json"}), 0) << err_.str();
  ProgramCall call{
      .arguments = {"/usr/bin/python3", PADDLE_SOURCE_DIR "/templates/mlflow/export.py", "mlruns",
                    "my: runs"},
      .folder = folder_,
      .input = out_.str()};
  for (int i = 0; i < 2; ++i) {  // the second time replaces the first
    const auto end = run_program(call);
    ASSERT_TRUE(end && end->ok()) << (end ? end->errors : end.error().message);
  }
  std::vector<std::string> found;
  for (const auto& entry : fs::recursive_directory_iterator(folder_ + "/mlruns"))
    found.push_back(entry.path().lexically_relative(folder_ + "/mlruns"));
  std::ranges::sort(found);
  const std::string experiment = found.front(), run = found[1];
  EXPECT_TRUE(std::ranges::all_of(experiment, ::isdigit)) << experiment;
  EXPECT_EQ(run.size(), experiment.size() + 33) << run;
  const auto text = [&](const std::string& file) {
    const auto read = read_file(folder_ + "/mlruns/" + file);
    EXPECT_TRUE(read) << file;
    return read ? *read : "";
  };
  const std::string meta = text(experiment + "/meta.yaml");
  EXPECT_NE(meta.find("experiment_id: \"" + experiment + "\"\n"), meta.npos) << meta;
  EXPECT_NE(meta.find("name: \"my: runs\"\n"), meta.npos) << meta;
  EXPECT_NE(meta.find("lifecycle_stage: \"active\"\n"), meta.npos) << meta;
  const std::string of_run = text(run + "/meta.yaml");
  for (const char* const line :
       {"\nrun_name: \"a\"\n", "\nstatus: 3\n", "\nstart_time: 1700000000000\n",
        "end_time: 1700000090000\n", "\nsource_type: 4\n", "\ntags: []\n"})
    EXPECT_NE(of_run.find(line), of_run.npos) << line << of_run;
  EXPECT_EQ(text(run + "/params/optimizer.learning_rate"), "0.1");
  EXPECT_EQ(text(run + "/params/--trainers"), "1");
  EXPECT_EQ(text(run + "/tags/lr"), "");
  EXPECT_EQ(text(run + "/tags/size"), "3");
  EXPECT_EQ(text(run + "/tags/mlflow.runName"), "a");
  EXPECT_EQ(text(run + "/tags/mlflow.note.content"), "caf\xc3\xa9: \"n\"");
  EXPECT_EQ(text(run + "/metrics/training_cost"), "1700000000001 2 5\n1700000000002 1.5 9\n");
  EXPECT_EQ(text(run + "/metrics/held_out_auc"), "1700000000003 nan 9\n");
  EXPECT_EQ(text(run + "/metrics/held_out_.._.._x"), "1700000000003 1 9\n");
  EXPECT_FALSE(fs::exists(folder_ + "/mlruns/x"));
}

}  // namespace
}  // namespace paddle::cli
