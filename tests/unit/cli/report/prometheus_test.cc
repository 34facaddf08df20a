#include "cli/report/prometheus.h"

#include <algorithm>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/json_reader.h"
#include "base/text_file.h"
#include "tests/support/fake_cluster.h"
#include "tests/support/temporary_folder.h"

namespace paddle::cli {
namespace {

using remote::ProcessState;

class Prometheus : public testing::Test {
 protected:
  remote::ProcessStatus& add(const std::string& name, const std::string& job = "j") {
    remote::ProcessStatus status;
    status.job = job;
    status.name = name;
    status.log = "jobs/" + job + "/" + name + "/train.log";
    status.state = ProcessState::kRunning;
    status.started_unix_ms = 1500;
    fake_.node(0).processes.push_back(status);
    return fake_.node(0).processes.back();
  }
  void metrics_of(const std::string& name, const std::string& line, const std::string& job = "j") {
    fake_.node(0).files["jobs/" + job + "/" + name + "/metrics.jsonl"] = line + "\n";
  }
  std::string text_of(const std::vector<std::string>& jobs, const RunRecord& record = {}) {
    ClusterSession session = fake_.session();
    std::vector<JobView> views(jobs.begin(), jobs.end());
    std::vector<JobMetrics> shown;
    for (JobView& view : views) {
      view.look(fake_.context, session);
      shown.push_back({&view, record});
    }
    const NodeMetrics node{.node = "n-0", .is_up = true, .cores = 4, .memory_bytes = 8e9};
    return prometheus_text("t", shown, {&node, 1});
  }

  FakeCluster fake_{1};
};

std::vector<std::string> text_lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

bool has_sample(const std::string& text, const std::string& line) {
  return ("\n" + text).find("\n" + line + "\n") != std::string::npos;
}

const std::string kTrainerLabels = R"({cluster="t",job_name="j",node="n-0",role="trainer-0")";

TEST_F(Prometheus, FamiliesStandTogether) {
  for (const char* const name : {"trainer-0", "trainer-1", "pserver-0"}) add(name);
  fake_.node(0).processes[0].usage = remote::Usage{100, 2500, {}, 7, 0};
  fake_.node(0).processes[0].incarnation = 3;
  fake_.node(0).processes[1].state = ProcessState::kExited;
  fake_.node(0).processes[1].usage = remote::Usage{900, 2500, {}, 7, 0};
  metrics_of("trainer-0",
             "{\"kind\":\"train\",\"pass\":2,\"batch\":3,\"cost\":0.5,\"auc\":0.7,\"unix_ms\":1}");
  metrics_of("pserver-0",
             "{\"kind\":\"pserver\",\"port\":7164,\"rows\":3,\"lags\":[5,0,2],\"unix_ms\":1}");
  const std::string text = text_of({"j"});
  EXPECT_NE(text.find("# HELP paddle_process_up 1 while the process runs, else 0\n"
                      "# TYPE paddle_process_up gauge\n"
                      "paddle_process_up{cluster=\"t\",job_name=\"j\",node=\"n-0\","
                      "role=\"pserver-0\"} 1\n"
                      "paddle_process_up" +
                      kTrainerLabels +
                      "} 1\n"
                      "paddle_process_up{cluster=\"t\",job_name=\"j\",node=\"n-0\","
                      "role=\"trainer-1\"} 0\n"),
            std::string::npos)
      << text;
  const std::string port = R"({cluster="t",job_name="j",node="n-0",role="pserver-0",port="7164")";
  for (const std::string& line :
       {"paddle_process_start_time_seconds" + kTrainerLabels + "} 1.5",
        "paddle_process_restarts_total" + kTrainerLabels + "} 2",
        "paddle_process_resident_memory_bytes" + kTrainerLabels + "} 100",
        "paddle_process_network_sent_bytes" + kTrainerLabels + "} 7",
        "paddle_trainer_pass" + kTrainerLabels + "} 2",
        "paddle_trainer_evaluator" + kTrainerLabels + ",evaluator=\"auc\"} 0.7",
        std::string("paddle_node_memory_bytes{cluster=\"t\",node=\"n-0\"} 8000000000"),
        "paddle_pserver_lag_bucket" + port + ",le=\"0\"} 5",
        "paddle_pserver_lag_bucket" + port + ",le=\"1\"} 5",
        "paddle_pserver_lag_bucket" + port + ",le=\"3\"} 7",
        "paddle_pserver_lag_bucket" + port + ",le=\"+Inf\"} 7",
        "paddle_pserver_lag_sum" + port + "} 4", "paddle_pserver_lag_count" + port + "} 7"})
    EXPECT_TRUE(has_sample(text, line)) << line << "\n" << text;
  EXPECT_EQ(text.find("received_bytes"), std::string::npos) << "a family without a sample";
  EXPECT_EQ(text.find("bytes{cluster=\"t\",job_name=\"j\",node=\"n-0\",role=\"trainer-1\""),
            std::string::npos)
      << "a figure of a process that does not run";
}

TEST_F(Prometheus, AJobHasItsRecordAndItsProgress) {
  add("trainer-0").reports = true;
  remote::Progress progress;
  progress.unix_ms = fake_.node(0).usage.unix_ms;
  progress.pass = 1;
  progress.passes = 4;
  progress.pass_done = 0.5;
  progress.batch = 9;
  progress.cost = 0.25;
  progress.examples_per_second = 1000;
  fake_.node(0).processes[0].progress = progress;
  remote::ProcessStatus& failed = add("trainer-0", "f");
  failed.state = ProcessState::kExited;
  failed.exit_code = 1;
  remote::ProcessStatus& done = add("trainer-0", "d");
  done.state = ProcessState::kExited;
  const RunRecord record{.tags = {"a", "b=1"},
                         .note = "secret",
                         .git = {.commit = "12ab", .branch = "ma\"in", .is_changed = true}};
  const std::string text = text_of({"j", "f", "d"}, record);
  for (const std::string& line :
       {std::string(R"(paddle_job_info{cluster="t",job_name="j",tags=",a,b=1,",commit="12ab",)") +
            R"(branch="ma\"in",changed="true"} 1)",
        std::string(R"(paddle_job_running{cluster="t",job_name="j"} 1)"),
        std::string(R"(paddle_job_running{cluster="t",job_name="f"} 0)"),
        std::string(R"(paddle_job_failed{cluster="t",job_name="j"} 0)"),
        std::string(R"(paddle_job_failed{cluster="t",job_name="f"} 1)"),
        std::string(R"(paddle_job_failed{cluster="t",job_name="d"} 0)"),
        std::string(R"(paddle_job_stalled_processes{cluster="t",job_name="j"} 0)"),
        std::string(R"(paddle_job_progress_ratio{cluster="t",job_name="j"} 0.375)"),
        "paddle_trainer_examples_per_second" + kTrainerLabels + "} 1000",
        "paddle_trainer_cost" + kTrainerLabels + "} 0.25",
        "paddle_trainer_batch" + kTrainerLabels + "} 9"})
    EXPECT_TRUE(has_sample(text, line)) << line << "\n" << text;
  EXPECT_EQ(text.find("secret"), std::string::npos) << "a note has no bound on its values";
  EXPECT_EQ(text.find("paddle_process_up{cluster=\"t\",job_name=\"f\""), std::string::npos);
}

TEST_F(Prometheus, AStalledProcessIsCountedAndHasNoTimeLeft) {
  remote::ProcessStatus& trainer = add("trainer-0");
  trainer.reports = true;
  trainer.progress.emplace().passes = 4;
  trainer.progress->batch = 9;
  const std::string text = text_of({"j"});
  EXPECT_TRUE(has_sample(text, R"(paddle_job_stalled_processes{cluster="t",job_name="j"} 1)"))
      << text;
  EXPECT_TRUE(has_sample(text, "paddle_trainer_examples_per_second" + kTrainerLabels + "} 0"))
      << text;
  EXPECT_EQ(text.find("paddle_job_time_left"), std::string::npos);
}

// Every sample has one line, whatever a node says, and every series occurs once.
TEST_F(Prometheus, HostileTextsStayInTheirLabels) {
  const std::string bad = "x\"} 1\nevil{a=\"\\\xff\x1b[31m\xe2\x80\xae\r";
  add("trainer-0", bad);
  add("trainer-0", bad);
  metrics_of("trainer-0", "{\"kind\":\"train\",\"cost\":1,\"a\\\"\\n\\\\\":4,\"unix_ms\":1}", bad);
  RunRecord record;
  record.git.branch = bad + std::string(100'000, 'x');
  const std::string text = text_of({bad}, record);
  const std::regex sample(
      R"re(paddle_[a-z_]+\{[a-z_]+="([^"\\]|\\["\\n])*"(,[a-z_]+="([^"\\]|\\["\\n])*")*\} [-+.0-9a-zA-Z]+)re");
  std::set<std::string> series;
  for (const std::string& line : text_lines(text)) {
    EXPECT_TRUE(is_utf8(line));
    EXPECT_LT(line.size(), 4 * kLabelBytesMax + 1000) << line;
    if (line.starts_with("# ")) continue;
    EXPECT_TRUE(line.size() > 2000 || std::regex_match(line, sample)) << line;
    EXPECT_TRUE(series.insert(line.substr(0, line.rfind(' '))).second) << line;
  }
  EXPECT_NE(text.find(R"(evaluator="a\"\\x0a\\")"), std::string::npos) << text;
}

TEST_F(Prometheus, WhatANodeSendsIsBounded) {
  std::string line = "{\"kind\":\"train\",\"cost\":1";
  for (int i = 0; i < 200; ++i) line += fmt::format(",\"e{}\":{}", i, i);
  metrics_of("trainer-0", line + ",\"unix_ms\":1}");
  add("trainer-0");
  std::string ports;
  for (int i = 1; i <= 60; ++i)
    ports += fmt::format("{{\"kind\":\"pserver\",\"port\":{},\"lags\":[1]}}\n", i);
  metrics_of("pserver-0", ports);
  add("pserver-0");
  std::vector<std::string> jobs{"j"};
  for (int i = 0; i < 150; ++i) {
    jobs.push_back(fmt::format("old-{}", i));
    remote::ProcessStatus& ended = add("trainer-0", jobs.back());
    ended.state = ProcessState::kExited;
    ended.started_unix_ms = 1000 + i;
  }
  const std::string text = text_of(jobs);
  std::map<std::string, std::size_t> counts;
  for (const std::string& sample : text_lines(text)) ++counts[sample.substr(0, sample.find('{'))];
  EXPECT_EQ(counts["paddle_trainer_evaluator"], kEvaluatorsShownMax);
  EXPECT_EQ(counts["paddle_pserver_rows"], 60U);
  EXPECT_EQ(counts["paddle_job_info"], 1 + kEndedJobsMax);
  EXPECT_EQ(text.find("\"old-49\""), std::string::npos);
  EXPECT_NE(text.find("\"old-50\""), std::string::npos);
}

std::string source_file(const std::string& path) {
  return test::TemporaryFolder::read(std::string(PADDLE_SOURCE_DIR "/") + path);
}

TEST_F(Prometheus, ThePageDescribesEachFamily) {
  std::vector<std::string> rows;
  for (const std::string& line : text_lines(source_file("docs/metrics.md"))) {
    if (line.starts_with("| `paddle_")) rows.push_back(line);
  }
  const auto families = metric_families();
  ASSERT_EQ(rows.size(), families.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const MetricFamily& one = families[i];
    const std::string begin =
        fmt::format("| `{}` | {} | {} | {}", one.name, one.type, one.labels, one.help);
    EXPECT_TRUE(rows[i].starts_with(begin)) << rows[i] << "\n" << begin;
    EXPECT_EQ(one.type == "counter", one.name.ends_with("_total")) << one.name;
  }
}

TEST_F(Prometheus, SamplesHaveTheLabelsOfTheirFamily) {
  add("trainer-0");
  add("pserver-0");
  const std::string figures = "\"pass\":1,\"batch\":2,\"cost\":1,\"auc\":0.5,\"unix_ms\":1}\n";
  metrics_of("trainer-0", "{\"kind\":\"train\"," + figures + "{\"kind\":\"test\"," + figures);
  metrics_of("pserver-0", "{\"kind\":\"pserver\",\"port\":1,\"rows\":1,\"unix_ms\":1}");
  std::map<std::string, std::string> labels;
  for (const MetricFamily& family : metric_families())
    labels[std::string(family.name)] = std::string(family.labels);
  const std::regex value(R"re(="[^"]*")re");
  for (const std::string& line : text_lines(text_of({"j"}))) {
    if (line.starts_with("# ")) continue;
    const std::size_t open = line.find('{');
    std::string names = line.substr(open + 1, line.rfind('}') - open - 1);
    names = std::regex_replace(std::regex_replace(names, value, ""), std::regex(","), ", ");
    EXPECT_EQ(names, labels[line.substr(0, open)]) << line;
  }
}

TEST_F(Prometheus, TheDashboardOfGrafanaUsesDescribedFamilies) {
  const std::string text = source_file("templates/grafana/paddlectl.json");
  ASSERT_TRUE(JsonReader({}).read(text));
  std::set<std::string> known;
  for (const MetricFamily& family : metric_families()) known.emplace(family.name);
  std::set<std::string> used;
  const std::regex name("paddle_[a-z_]+");
  for (std::sregex_iterator at(text.begin(), text.end(), name), end; at != end; ++at) {
    std::string one = at->str();
    if (one.ends_with("_bucket")) one.resize(one.size() - 7);
    EXPECT_TRUE(known.contains(one)) << one;
    used.insert(one);
  }
  EXPECT_GE(used.size(), 16U);
}

}  // namespace
}  // namespace paddle::cli
