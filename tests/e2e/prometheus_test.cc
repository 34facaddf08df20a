// Metrics for Prometheus, judged by Debian's prometheus and promtool.
#include "cli/report/prometheus.h"

#include <sys/stat.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <regex>
#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/e2e/cli_local_test_cluster.h"
#include "tests/support/fake_cluster.h"
#include "tests/support/free_ports.h"

namespace paddle::test {
namespace {

namespace fs = std::filesystem;
using cli::FakeCluster;
using cli::JobMetrics;
using cli::JobView;

constexpr const char* kPrometheus = "/usr/bin/prometheus";
constexpr const char* kPromtool = "/usr/bin/promtool";
constexpr auto kDeadline = std::chrono::seconds(60);

bool comes_true(const std::function<bool()>& condition) {
  const auto end = std::chrono::steady_clock::now() + kDeadline;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  return true;
}

class PrometheusTools : public testing::Test {
 protected:
  void SetUp() override {
    if (!fs::exists(kPromtool) || !fs::exists(kPrometheus))
      GTEST_SKIP() << "no prometheus here: scripts/deps optional";
  }

  // Returns the output of a shell command, with '!' in front if it fails.
  std::string shell(const std::string& command) {
    Process process({"/bin/sh", "-c", command}, folder_ / fmt::format("shell-{}.txt", calls_++));
    const auto code = process.wait();
    return (code == 0 ? "" : "!") + process.output();
  }
  // promtool's complaints about a text; "" if it has none.
  std::string check(const std::string& text) {
    return shell(fmt::format("{} check metrics < {}", kPromtool, folder_.write("text", text)));
  }

  TemporaryFolder folder_;
  int calls_ = 0;
};

std::string source_file(const std::string& path) {
  return TemporaryFolder::read(std::string(PADDLE_SOURCE_DIR "/") + path);
}

// The indented block of the page that begins with this line, without its indentation.
std::string block_of(const std::string& page, const std::string& first) {
  std::string block;
  std::size_t at = page.find("\n    " + first + "\n");
  while (at != std::string::npos && page.compare(at, 5, "\n    ") == 0) {
    const std::size_t end = page.find('\n', at + 1);
    block += page.substr(at + 5, end - at - 4);
    at = end;
  }
  return block;
}

TEST_F(PrometheusTools, AcceptTheAlertsAndConfigurationsOfThePage) {
  const std::string page = source_file("docs/metrics.md");
  const std::string rules = block_of(page, "groups:");
  EXPECT_NE(rules.find("PaddleNodeDown"), std::string::npos) << rules;
  const std::string checked =
      shell(fmt::format("{} check rules {}", kPromtool, folder_.write("rules.yml", rules)));
  EXPECT_NE(checked.find("SUCCESS: 3 rules found"), std::string::npos) << checked;
  std::size_t configurations = 0;
  for (std::size_t at = 0; (at = page.find("\n    scrape_configs:\n", at)) != page.npos; ++at) {
    ++configurations;
    const std::string file = folder_.write("c.yml", block_of(page.substr(at), "scrape_configs:"));
    const std::string found =
        shell(fmt::format("{} check config --syntax-only {}", kPromtool, file));
    EXPECT_NE(found.find("SUCCESS"), std::string::npos) << found;
  }
  EXPECT_EQ(configurations, 2U);
}

TEST_F(PrometheusTools, AcceptTheExpressionsOfTheDashboard) {
  const std::string dashboard = source_file("templates/grafana/paddlectl.json");
  std::string rules = "groups:\n- name: g\n  rules:\n";
  const std::regex expression(R"re("expr": "((?:[^"\\]|\\.)*)")re");
  int number = 0;
  for (std::sregex_iterator at(dashboard.begin(), dashboard.end(), expression), end; at != end;
       ++at) {
    std::string text = at->str(1);
    for (const auto& [name, value] : {std::pair("\\$__rate_interval", "1m"), {"\\$\\w+", "x"}})
      text = std::regex_replace(text, std::regex(name), value);
    rules += fmt::format("  - record: r{}\n    expr: \"{}\"\n", number++, text);
  }
  EXPECT_GE(number, 16);
  const std::string checked =
      shell(fmt::format("{} check rules {}", kPromtool, folder_.write("rules.yml", rules)));
  EXPECT_NE(checked.find(fmt::format("SUCCESS: {} rules found", number)), std::string::npos)
      << checked << rules;
}

remote::ProcessStatus process_of(const std::string& job, const std::string& name) {
  remote::ProcessStatus status;
  status.job = job;
  status.name = name;
  status.log = "jobs/" + job + "/" + name + ".log";
  status.state = remote::ProcessState::kRunning;
  status.started_unix_ms = 1500;
  status.usage = remote::Usage{100, 2500, 5, 7, 0};
  return status;
}

TEST_F(PrometheusTools, AcceptTwoHundredProcessesAndHostileNames) {
  FakeCluster fake(2);
  const std::string bad = "x\"} 1\nevil{a=\"\\\xff\x1b[31m\xe2\x80\xae\r";
  for (int i = 0; i < 200; ++i) {
    remote::FakeNode& node = fake.node(static_cast<std::size_t>(i % 2));
    node.processes.push_back(
        process_of("j", fmt::format("{}-{}", i < 50 ? "pserver" : "trainer", i)));
    node.files["jobs/j/trainer-" + std::to_string(i) + ".log"] = "";
  }
  for (const char* const name : {"trainer-0", "trainer-0", "trainer-1"})
    fake.node(0).processes.push_back(process_of(bad, name));
  cli::ClusterSession session = fake.session();
  std::vector<JobView> views{JobView("j"), JobView(bad)};
  std::vector<JobMetrics> jobs;
  for (JobView& view : views) {
    view.look(fake.context, session);
    jobs.push_back({&view, {.tags = {bad}, .note = bad, .git = {bad, bad, true}}});
  }
  const cli::NodeMetrics node{.node = bad};
  const std::string text = cli::prometheus_text(bad, jobs, {&node, 1});
  EXPECT_NE(text.find("role=\"trainer-199\""), std::string::npos);
  EXPECT_EQ(check(text), "");
  EXPECT_NE(check(text + "x{"), "") << "promtool does check";
}

// A job on two local nodes, and the prometheus that scrapes it through `paddlectl dashboard` and
// through the file for node_exporter.
class PrometheusScrapes : public PrometheusTools {
 protected:
  void SetUp() override {
    PrometheusTools::SetUp();
    if (IsSkipped()) return;
    cluster_.copy_template("word2vec");
    ASSERT_EQ(cluster_.prepare("word2vec", {"--minimum", "1"}, chained_sentences(300)).code, 0);
    ASSERT_EQ(cluster_.run({"up", "cluster.toml"}).code, 0);
    port_ = free_ports(3);
    ASSERT_GT(port_, 0);
    fs::create_directories(cluster_.folder() / "prom");
  }

  void start_prometheus() {
    const std::string token = fmt::format("{:0>43}", "t");
    const std::string token_file = folder_.write("token", token + "\n");
    ::chmod(token_file.c_str(), 0600);
    programs_.push_back(cluster_.start(
        {"dashboard", "--port", std::to_string(port_ + 1), "--token-file", token_file}));
    programs_.push_back(cluster_.start({"metrics", "--textfile", "prom", "--interval", "1s"}));
    // In place of node_exporter.
    programs_.emplace_back(
        std::vector<std::string>{"/usr/bin/python3", "-m", "http.server", "--bind", "127.0.0.1",
                                 "--directory", cluster_.folder() / "prom",
                                 std::to_string(port_ + 2)},
        folder_ / "http.txt");
    const std::string target = "    static_configs: [{targets: [\"127.0.0.1:";
    const std::string file = folder_.write(
        "prometheus.yml",
        fmt::format("global: {{scrape_interval: 1s, scrape_timeout: 1s}}\nscrape_configs:\n"
                    "  - job_name: dashboard\n"
                    "    authorization: {{credentials_file: {}}}\n{}{}\"]}}]\n"
                    "  - job_name: file\n    metrics_path: /paddlectl-t.prom\n{}{}\"]}}]\n",
                    token_file, target, port_ + 1, target, port_ + 2));
    programs_.emplace_back(
        std::vector<std::string>{kPrometheus, "--config.file=" + file,
                                 "--storage.tsdb.path=" + (folder_ / "storage"),
                                 fmt::format("--web.listen-address=127.0.0.1:{}", port_)},
        folder_ / "prometheus.txt");
  }

  // The answer of prometheus to an instant query.
  std::string query(const std::string& expression) {
    return shell(
        fmt::format("curl -sS --get --data-urlencode 'query={}' "
                    "http://127.0.0.1:{}/api/v1/query",
                    expression, port_));
  }
  // Waits until the expression, with the labels of the source and the job, is true for each source.
  void expect(const std::string& expression) {
    for (const char* const source : {"dashboard", "file"}) {
      const std::string labels = fmt::format("job=\"{}\",job_name=\"live\"", source);
      const std::string whole = fmt::format(fmt::runtime(expression), labels);
      EXPECT_TRUE(comes_true([&] { return query(whole).find("\"value\":[") != std::string::npos; }))
          << whole << "\n"
          << query(fmt::format("{{job=\"{}\"}}", source)) << state();
    }
  }
  std::string state() {
    std::string text = cluster_.run({"status", "live"}).output;
    for (const Process& program : programs_) text += "\n" + program.output();
    return text;
  }
  int engine(const std::string& argument) {
    int pid = 0;
    comes_true([&] { return (pid = cluster_.find_engine(argument)) > 0; });
    return pid;
  }

  LocalCluster cluster_{2};
  std::vector<Process> programs_;
  std::uint16_t port_ = 0;
};

TEST_F(PrometheusScrapes, AJobFromItsStartToItsEnd) {
  EXPECT_EQ(check(cluster_.run({"metrics"}).output), "") << "no job";
  start_prometheus();
  const Outcome train = cluster_.run({"train", "--detach", "--trainers", "2", "--pservers", "1",
                                      "--restarts", "1", "--tag", "nightly", "--name", "live",
                                      "--set", "train.passes=1000000", "word2vec"});
  ASSERT_EQ(train.code, 0) << train.output;
  expect("sum(paddle_trainer_examples_per_second{{{0}}}) > 0");
  expect("count(paddle_process_up{{{0}}} == 1) == 3");
  expect("paddle_job_info{{{0},tags=~\".*,nightly,.*\"}}");
  expect("sum(paddle_pserver_rows{{{0}}}) > 0");
  EXPECT_EQ(check(cluster_.run({"metrics"}).output), "") << "a job with sparse tables";

  ::kill(engine("--trainer_id=1"), SIGKILL);
  expect("paddle_process_restarts_total{{{0},role=\"trainer-1\"}} == 1");
  expect("paddle_process_up{{{0},role=\"trainer-1\"}} == 1");
  ::kill(engine("--trainer_id=1"), SIGKILL);
  expect("paddle_process_up{{{0},role=\"trainer-1\"}} == 0");
  expect("paddle_process_up{{{0},role=\"trainer-0\"}} == 1");
  expect("paddle_job_failed{{{0}}} == 1");
  cluster_.run({"stop", "--now", "live"});
  expect("paddle_job_running{{{0}}} == 0");
  expect("absent(paddle_trainer_examples_per_second{{{0}}})");
  expect("absent(paddle_process_up{{{0}}})");
  const std::string text = cluster_.run({"metrics"}).output;
  EXPECT_NE(text.find("paddle_job_failed{cluster=\"t\",job_name=\"live\"} 1\n"), std::string::npos)
      << text;
  EXPECT_EQ(check(text), "") << "a job that failed";

  const std::string file = cluster_.folder() / "prom/paddlectl-t.prom";
  EXPECT_TRUE(fs::exists(file));
  programs_[1].signal(SIGTERM);
  EXPECT_EQ(programs_[1].wait(), 0) << programs_[1].output();
  EXPECT_FALSE(fs::exists(file));
}

}  // namespace
}  // namespace paddle::test
