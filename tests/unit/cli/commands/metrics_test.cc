// `logs --metrics`, and metrics for Prometheus.
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include "tests/unit/cli/commands/commands_fixture.h"

namespace paddle::cli {
namespace {

TEST_F(CommandsTest, MetricsAreJsonLinesInTheLogsAndPrometheusText) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  ASSERT_EQ(train(), 0);
  nodes_[0].files["jobs/job1/node_0/metrics.jsonl"] =
      "{\"kind\":\"train\",\"pass\":1,\"batch\":5,\"cost\":0.5,\"auc\":0.7,\"unix_ms\":2000}"
      "\ngarbage\n";
  nodes_[1].files["jobs/job1/node_1/metrics.jsonl"] =
      "{\"kind\":\"train\",\"pass\":1,\"batch\":4,\"cost\":0.25,\"unix_ms\":1000}\n";
  nodes_[0].files["jobs/job1/node_0/server-metrics.jsonl"] =
      "{\"kind\":\"pserver\",\"port\":7164,\"rows\":3,\"bytes\":48,\"pushes\":6,\"lags\":[1,2,3],"
      "\"unix_ms\":3000}\n";
  ASSERT_EQ(run({"logs", "--metrics"}), 0) << err_.str();
  EXPECT_EQ(
      out_.str(),
      "{\"node\":\"n-1\",\"role\":\"trainer-1\",\"kind\":\"train\",\"pass\":1,\"batch\":4,"
      "\"cost\":0.25,\"unix_ms\":1000}\n"
      "{\"node\":\"n-0\",\"role\":\"trainer-0\",\"kind\":\"train\",\"pass\":1,\"batch\":5,"
      "\"cost\":0.5,\"auc\":0.7,\"unix_ms\":2000}\n"
      "{\"node\":\"n-0\",\"role\":\"pserver-0\",\"kind\":\"pserver\",\"port\":7164,\"rows\":3,"
      "\"bytes\":48,\"pushes\":6,\"lags\":[1,2,3],\"unix_ms\":3000}\n");
  EXPECT_EQ(run({"logs", "--metrics", "--grep", "pserver"}), 0);
  EXPECT_EQ(std::ranges::count(out_.str(), '\n'), 1) << out_.str();
  for (const char* const other : {"--previous", "--since=1h"})
    EXPECT_EQ(run({"logs", "--metrics", other}), 2) << other;
  for (FakeNode& node : nodes_) {
    for (ProcessStatus& process : node.processes) process.state = ProcessState::kRunning;
  }
  ASSERT_EQ(run({"metrics"}), 0) << err_.str();
  const std::string own = "{cluster=\"t\",job_name=\"job1\",node=\"";
  EXPECT_TRUE(
      out_has("# HELP paddle_trainer_cost mean cost of the training since the pass began\n"
              "# TYPE paddle_trainer_cost gauge\n"
              "paddle_trainer_cost" +
              own +
              "n-0\",role=\"trainer-0\"} 0.5\n"
              "paddle_trainer_cost" +
              own + "n-1\",role=\"trainer-1\"} 0.25\n"))
      << out_.str();
  EXPECT_TRUE(out_has("role=\"trainer-0\",evaluator=\"auc\"} 0.7\n")) << out_.str();
  EXPECT_TRUE(out_has("paddle_pserver_lag_bucket" + own +
                      "n-0\",role=\"pserver-0\",port=\"7164\",le=\"3\"} 6\n"))
      << out_.str();
  EXPECT_TRUE(out_has("paddle_job_running{cluster=\"t\",job_name=\"job1\"} 1\n")) << out_.str();
  EXPECT_TRUE(out_has("paddle_node_up{cluster=\"t\",node=\"n-1\"} 1\n")) << out_.str();
}

TEST_F(CommandsTest, MetricsThatAreNotFiniteAreNull) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  ASSERT_EQ(train(), 0);
  nodes_[0].files["jobs/job1/node_0/metrics.jsonl"] =
      "{\"kind\": \"train\", \"batch\": 4, \"cost\": NaN, \"lr\": -Infinity, \"unix_ms\": 1}\n";
  ASSERT_EQ(run({"logs", "--metrics", "--role", "trainer-0"}), 0) << err_.str();
  EXPECT_EQ(out_.str(),
            "{\"node\":\"n-0\",\"role\":\"trainer-0\",\"kind\": \"train\", \"batch\": 4, "
            "\"cost\": null, \"lr\": null, \"unix_ms\": 1}\n");
}

// A program of the user's own may open the file as "utf-8-sig".
TEST_F(CommandsTest, MetricsMayBeginWithAByteOrderMark) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  ASSERT_EQ(train(), 0);
  for (const char* const cost : {"0.5", "NaN"}) {
    const std::string line = fmt::format("\"batch\": 1, \"cost\": {}}}\n", cost);
    nodes_[0].files["jobs/job1/node_0/metrics.jsonl"] =
        "\xef\xbb\xbf{\"kind\": \"train\", " + line + "{\"kind\": \"pass\", " + line;
    ASSERT_EQ(run({"logs", "--metrics", "--role", "trainer-0"}), 0) << err_.str();
    const std::string shown = std::string(cost) == "NaN" ? "null" : cost;
    for (const char* const kind : {"train", "pass"}) {
      EXPECT_TRUE(
          out_has(fmt::format("{{\"node\":\"n-0\",\"role\":\"trainer-0\",\"kind\": \"{}\", "
                              "\"batch\": 1, \"cost\": {}}}\n",
                              kind, shown)))
          << out_.str();
    }
    EXPECT_FALSE(out_has("\xef\xbb\xbf"));
  }
  nodes_[0].files["jobs/job1/node_0/metrics.jsonl"] =
      "\xef\xbb\xbf{\"kind\": \"train\", \"batch\": 7, \"cost\": 0.5}\n";
  ASSERT_EQ(run({"status", "--json"}), 0) << err_.str();
  EXPECT_TRUE(out_has("\"batch\": 7")) << out_.str();
}

TEST_F(CommandsTest, MetricsAreOneObjectInJson) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  ASSERT_EQ(train(), 0) << err_.str();
  ASSERT_EQ(run({"metrics"}), 0) << err_.str();
  const std::string text = out_.str();
  EXPECT_TRUE(text.starts_with("# HELP ")) << text;
  ASSERT_EQ(run({"metrics", "--json"}), 0) << err_.str();
  EXPECT_EQ(out_.str(), Json::object({{"cluster", "t"}, {"text", text}}).text() + "\n");
  EXPECT_EQ(run({"metrics", "--job", "none", "--json"}), 2);
  EXPECT_TRUE(err_.str().starts_with("{\"error\": {\"code\": 2, ")) << err_.str();
  EXPECT_EQ(out_.str(), "");
}

TEST_F(CommandsTest, LinesOfMetricsAreTheSameWithJson) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  ASSERT_EQ(train(), 0) << err_.str();
  ASSERT_EQ(run({"logs", "--metrics"}), 0) << err_.str();
  const std::string lines = out_.str();
  EXPECT_TRUE(lines.starts_with(R"({"node":"n-0","role":"trainer-0","kind":"test",)")) << lines;
  ASSERT_EQ(run({"logs", "--metrics", "--json"}), 0) << err_.str();
  EXPECT_EQ(out_.str(), lines);
}

TEST_F(CommandsTest, MetricsAreOfAllJobsOrOne) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  ASSERT_EQ(run({"metrics"}), 0) << "no job: " << err_.str();
  EXPECT_TRUE(out_has("paddle_node_cores{cluster=\"t\",node=\"n-0\"} ")) << out_.str();
  EXPECT_FALSE(out_has("paddle_job_"));
  ASSERT_EQ(train(), 0) << err_.str();
  trainer_state_ = ProcessState::kRunning;
  ASSERT_EQ(run({"train", "--detach", "--name", "job2", "--tag", "lr", "--tag", "b", "w"}), 0)
      << err_.str();
  ASSERT_EQ(run({"metrics"}), 0) << err_.str();
  EXPECT_TRUE(
      out_has("paddle_job_info{cluster=\"t\",job_name=\"job2\",tags=\",lr,b,\",commit=\"\","
              "branch=\"\",changed=\"\"} 1\n"))
      << out_.str();
  EXPECT_TRUE(
      out_has("paddle_job_running{cluster=\"t\",job_name=\"job2\"} 1\n"
              "paddle_job_running{cluster=\"t\",job_name=\"job1\"} 0\n"))
      << out_.str();
  EXPECT_TRUE(out_has("paddle_process_up{cluster=\"t\",job_name=\"job2\",")) << out_.str();
  EXPECT_FALSE(out_has("paddle_process_up{cluster=\"t\",job_name=\"job1\",")) << "it has ended";
  ASSERT_EQ(run({"metrics", "job1"}), 0) << err_.str();
  EXPECT_FALSE(out_has("job2")) << out_.str();
}

TEST_F(CommandsTest, MetricsShowTheNodeThatIsLost) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  nodes_[1].unreachable = true;
  EXPECT_EQ(run({"metrics"}), 4);
  EXPECT_TRUE(
      out_has("paddle_node_up{cluster=\"t\",node=\"n-0\"} 1\n"
              "paddle_node_up{cluster=\"t\",node=\"n-1\"} 0\n"))
      << out_.str();
}

TEST_F(CommandsTest, MetricsFileIsReadableByOthersAndGoneAtTheEnd) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  ASSERT_EQ(train(), 0) << err_.str();
  fs::create_directories(folder_ + "/prom");
  write("prom/.paddlectl-1-1.part", "of a paddlectl that was killed");
  const std::string path = folder_ + "/prom/paddlectl-t.prom";
  const mode_t before = ::umask(077);
  std::vector<std::string> texts;
  on_pause_ = [&] {
    struct stat info {};
    EXPECT_EQ(::stat(path.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 07777U, 0644U);
    texts.push_back(test::TemporaryFolder::read(path));
    EXPECT_EQ(std::distance(fs::directory_iterator(folder_ + "/prom"), {}), 1) << "no other file";
    nodes_[1].processes.clear();  // as `rm` does
    nodes_[0].processes.clear();
    interrupted_ = texts.size() == 2;
  };
  EXPECT_EQ(run({"metrics", "--textfile", folder_ + "/prom", "--interval", "1m"}), 0) << err_.str();
  ::umask(before);
  EXPECT_TRUE(err_has("paddlectl-t.prom every 1m")) << err_.str();
  ASSERT_EQ(texts.size(), 2U);
  EXPECT_NE(texts[0].find("paddle_job_running"), std::string::npos) << texts[0];
  EXPECT_EQ(texts[1].find("paddle_job_running"), std::string::npos) << "the job is gone";
  EXPECT_NE(texts[1].find("paddle_node_up"), std::string::npos) << texts[1];
  EXPECT_FALSE(fs::exists(path));
  EXPECT_TRUE(err_has("paddlectl-t.prom is removed\n")) << err_.str();
  EXPECT_EQ(run({"metrics", "--interval", "3s"}), 2);
  EXPECT_TRUE(err_has("--interval does nothing without --textfile")) << err_.str();
}

TEST_F(CommandsTest, MetricsFileOfAnotherWriterStays) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  fs::create_directories(folder_ + "/prom");
  on_pause_ = [&] {
    write("prom/other", "another paddlectl's");
    fs::rename(folder_ + "/prom/other", folder_ + "/prom/paddlectl-t.prom");
    interrupted_ = true;
  };
  EXPECT_EQ(run({"metrics", "--textfile", folder_ + "/prom"}), 0) << err_.str();
  EXPECT_EQ(test::TemporaryFolder::read(folder_ + "/prom/paddlectl-t.prom"), "another paddlectl's");
  EXPECT_FALSE(err_has("is removed")) << err_.str();
}

TEST_F(CommandsTest, MetricsFileShowsANodeThatComesBack) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  fs::create_directories(folder_ + "/prom");
  const auto shows = [&](int up) {
    const std::string text = test::TemporaryFolder::read(folder_ + "/prom/paddlectl-t.prom");
    return text.find(fmt::format("paddle_node_up{{cluster=\"t\",node=\"n-1\"}} {}\n", up)) !=
           std::string::npos;
  };
  int steps = 0, pauses = 0;
  on_pause_ = [&] {
    if (shows(1) && steps % 2 == 0) nodes_[1].unreachable = ++steps == 1;
    if (shows(0) && steps == 1) nodes_[1].unreachable = ++steps != 2;
    interrupted_ = steps == 3 || ++pauses == 10'000;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));  // for the thread that connects
  };
  EXPECT_EQ(run({"metrics", "--textfile", folder_ + "/prom"}), 0) << err_.str();
  EXPECT_EQ(steps, 3);
}

TEST_F(CommandsTest, MetricsFileNeedsAFolderThatCanBeWritten) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  EXPECT_EQ(run({"metrics", "--textfile", folder_ + "/none"}), 2);
  EXPECT_TRUE(
      err_has("/none is no folder\nhint: make it, and start node_exporter with "
              "--collector.textfile.directory="))
      << err_.str();
  EXPECT_EQ(run({"metrics", "--textfile", folder_ + "/c.toml"}), 2) << err_.str();
  fs::create_directories(folder_ + "/prom/paddlectl-t.prom");
  EXPECT_NE(run({"metrics", "--textfile", folder_ + "/prom"}), 0);
  EXPECT_TRUE(fs::exists(folder_ + "/prom/paddlectl-t.prom")) << "not ours";
  if (::geteuid() == 0) return;  // root may write everywhere
  fs::create_directories(folder_ + "/sealed");
  ::chmod((folder_ + "/sealed").c_str(), 0500);
  EXPECT_EQ(run({"metrics", "--textfile", folder_ + "/sealed"}), 7);
  EXPECT_TRUE(err_has("Permission denied\nhint: let this user write there")) << err_.str();
}

}  // namespace
}  // namespace paddle::cli
