// metrics, in both formats.
#include <fmt/format.h>

#include "tests/unit/cli/commands/commands_fixture.h"

namespace paddle::cli {
namespace {

TEST_F(CommandsTest, MetricsAreJsonLinesOrPrometheusText) {
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
  ASSERT_EQ(run({"metrics"}), 0) << err_.str();
  EXPECT_EQ(
      out_.str(),
      "{\"node\":\"n-1\",\"role\":\"trainer-1\",\"kind\":\"train\",\"pass\":1,\"batch\":4,"
      "\"cost\":0.25,\"unix_ms\":1000}\n"
      "{\"node\":\"n-0\",\"role\":\"trainer-0\",\"kind\":\"train\",\"pass\":1,\"batch\":5,"
      "\"cost\":0.5,\"auc\":0.7,\"unix_ms\":2000}\n"
      "{\"node\":\"n-0\",\"role\":\"pserver-0\",\"kind\":\"pserver\",\"port\":7164,\"rows\":3,"
      "\"bytes\":48,\"pushes\":6,\"lags\":[1,2,3],\"unix_ms\":3000}\n");
  ASSERT_EQ(run({"metrics", "--format", "prometheus"}), 0) << err_.str();
  EXPECT_TRUE(
      out_has("# HELP paddle_trainer_cost mean cost since the pass began\n"
              "# TYPE paddle_trainer_cost gauge\n"
              "paddle_trainer_cost{job=\"job1\",node=\"n-0\",role=\"trainer-0\"} 0.5\n"
              "paddle_trainer_cost{job=\"job1\",node=\"n-1\",role=\"trainer-1\"} 0.25\n"))
      << out_.str();
  EXPECT_TRUE(out_has("role=\"trainer-0\",evaluator=\"auc\"} 0.6999")) << out_.str();
  EXPECT_TRUE(
      out_has("paddle_pserver_lag_bucket{job=\"job1\",node=\"n-0\",role=\"pserver-0\","
              "port=\"7164\",le=\"3\"} 6\n"))
      << out_.str();
  EXPECT_EQ(run({"metrics", "--format", "xml"}), 2);
}

TEST_F(CommandsTest, MetricsThatAreNotFiniteAreNull) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  ASSERT_EQ(train(), 0);
  nodes_[0].files["jobs/job1/node_0/metrics.jsonl"] =
      "{\"kind\": \"train\", \"batch\": 4, \"cost\": NaN, \"lr\": -Infinity, \"unix_ms\": 1}\n";
  ASSERT_EQ(run({"metrics", "--role", "trainer-0"}), 0) << err_.str();
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
    ASSERT_EQ(run({"metrics", "--role", "trainer-0"}), 0) << err_.str();
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

TEST_F(CommandsTest, MetricsAsPrometheusTextAreOneObjectInJson) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  ASSERT_EQ(train(), 0) << err_.str();
  ASSERT_EQ(run({"metrics", "--format", "prometheus"}), 0) << err_.str();
  const std::string text = out_.str();
  EXPECT_TRUE(text.starts_with("# HELP ")) << text;
  ASSERT_EQ(run({"metrics", "--format", "prometheus", "--json"}), 0) << err_.str();
  EXPECT_EQ(
      out_.str(),
      Json::object({{"job", "job1"}, {"format", "prometheus"}, {"text", text}}).text() + "\n");
  EXPECT_EQ(std::ranges::count(out_.str(), '\n'), 1);
}

TEST_F(CommandsTest, MetricsAsLinesOfJsonAreTheSameWithJson) {
  ASSERT_EQ(run({"up", "c.toml"}), 0);
  ASSERT_EQ(train(), 0) << err_.str();
  ASSERT_EQ(run({"metrics"}), 0) << err_.str();
  const std::string lines = out_.str();
  EXPECT_TRUE(lines.starts_with(R"({"node":"n-0","role":"trainer-0","kind":"test",)")) << lines;
  ASSERT_EQ(run({"metrics", "--json", "--format", "json"}), 0) << err_.str();
  EXPECT_EQ(out_.str(), lines);
  EXPECT_EQ(run({"metrics", "--format", "xml", "--json"}), 2);
  EXPECT_TRUE(err_.str().starts_with("{\"error\": {\"code\": 2, ")) << err_.str();
  EXPECT_EQ(run({"metrics", "--format", "prometheus", "--job", "none", "--json"}), 2);
  EXPECT_TRUE(err_.str().starts_with("{\"error\": {\"code\": 2, ")) << err_.str();
  EXPECT_EQ(out_.str(), "");
}

}  // namespace
}  // namespace paddle::cli
