#include "cli/report/prometheus.h"

#include <gtest/gtest.h>

#include "tests/support/fake_cluster.h"

namespace paddle::cli {
namespace {

TEST(Prometheus, FamiliesStandTogetherAndLabelsAreEscaped) {
  FakeCluster fake(1);
  for (const char* name : {"trainer-0", "trainer-1", "pserver-0"}) {
    remote::ProcessStatus status;
    status.job = "j";
    status.name = name;
    status.log = "jobs/j/" + std::string(name) + "/train.log";
    status.state = remote::ProcessState::kRunning;
    status.started_unix_ms = 1500;
    fake.node(0).processes.push_back(status);
  }
  fake.node(0).processes[1].state = remote::ProcessState::kExited;
  fake.node(0).processes[0].usage = remote::Usage{100, 2500, {}, 7, 0};
  fake.node(0).files["jobs/j/trainer-0/metrics.jsonl"] =
      "{\"kind\":\"train\",\"pass\":2,\"batch\":3,\"cost\":0.5,\"a\\\"b\\\\\":4,\"unix_ms\":1}\n";
  fake.node(0).files["jobs/j/pserver-0/metrics.jsonl"] =
      "{\"kind\":\"pserver\",\"port\":7164,\"rows\":3,\"lags\":[5,0,2],\"unix_ms\":1}\n";
  ClusterSession session = fake.session();
  JobView view("j");
  view.look(fake.context, session);
  const std::string text = prometheus_text(view);
  const std::string trainer = "{job=\"j\",node=\"n-0\",role=\"trainer-0\"";
  EXPECT_TRUE(
      text.starts_with("# HELP paddle_process_up 1 while the process runs\n"
                       "# TYPE paddle_process_up gauge\n"
                       "paddle_process_up{job=\"j\",node=\"n-0\",role=\"pserver-0\"} 1\n"
                       "paddle_process_up" +
                       trainer +
                       "} 1\n"
                       "paddle_process_up{job=\"j\",node=\"n-0\",role=\"trainer-1\"} 0\n"))
      << text;
  const auto has = [&](const std::string& line) {
    EXPECT_NE(text.find("\n" + line + "\n"), std::string::npos) << line << "\n" << text;
  };
  has("paddle_process_start_time_seconds" + trainer + "} 1.5");
  has("paddle_process_cpu_seconds_total" + trainer + "} 2.5");
  has("paddle_process_network_sent_bytes" + trainer + "} 7");
  has("paddle_trainer_pass" + trainer + "} 2");
  has("paddle_trainer_evaluator" + trainer + ",evaluator=\"a\\\"b\\\\\"} 4");
  const std::string port = "{job=\"j\",node=\"n-0\",role=\"pserver-0\",port=\"7164\"";
  has("paddle_pserver_lag_bucket" + port + ",le=\"0\"} 5");
  has("paddle_pserver_lag_bucket" + port + ",le=\"1\"} 5");
  has("paddle_pserver_lag_bucket" + port + ",le=\"3\"} 7");
  has("paddle_pserver_lag_bucket" + port + ",le=\"+Inf\"} 7");
  has("paddle_pserver_lag_sum" + port + "} 4");
  has("paddle_pserver_lag_count" + port + "} 7");
  EXPECT_EQ(text.find("received_bytes"), std::string::npos) << "a family without a sample";
}

}  // namespace
}  // namespace paddle::cli
