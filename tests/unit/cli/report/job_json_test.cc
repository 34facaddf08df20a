#include "cli/report/job_json.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/finished_job.h"

namespace paddle::cli {
namespace {

using Parsed = nlohmann::json;

Parsed json_of(const JobRecord& record) {
  return Parsed::parse(job_json(record));
}

Parsed finished_job() {
  const test::FinishedJob job;
  const auto record = read_job_record(job.folder / "j", "j");
  EXPECT_TRUE(record);
  return json_of(*record);
}

MetricsLine line_of(const std::string& kind, std::uint64_t pass) {
  MetricsLine line;
  line.kind = kind;
  line.pass = pass;
  return line;
}

TEST(JobJson, HasTheProcessesAsTheNodesLeftThem) {
  const Parsed job = finished_job();
  EXPECT_EQ(job["job"], "j");
  ASSERT_EQ(job["processes"].size(), 4U) << "a damaged line is left out";
  const Parsed& leader = job["processes"][1];
  EXPECT_EQ(leader["node"], "n<i>");
  EXPECT_EQ(leader["arguments"], "train --transport=clear --set=a=<u>") << "without placeholders";
  EXPECT_EQ(leader["log"], "node_0/train.log");
  EXPECT_EQ(leader["starts"], 1);
  EXPECT_EQ(job["processes"][3]["log"], "") << "a path out of the folder is no link";
  EXPECT_EQ(leader["examples"], 1000);
  EXPECT_EQ(leader["rate"], 1000);
  EXPECT_EQ(leader["slow"], false);
  EXPECT_EQ(leader["ended_ms"], 1'700'000'002'500);
  EXPECT_EQ(leader["memory_bytes"], 90'000'000);
  EXPECT_EQ(leader["cpu_ms"], 1500);
  const Parsed& failed = job["processes"][2];
  EXPECT_EQ(failed["state"], "exited with code 6");
  EXPECT_EQ(failed["failed"], true);
  EXPECT_EQ(failed["slow"], true);
  EXPECT_FALSE(job["processes"][0].contains("rate")) << "a pserver trains on nothing";
  EXPECT_EQ(job["slow"],
            Parsed({"trainer-1 on n-1 is slow: 100 examples/s, 10 % of the others' median 1000"}));
  EXPECT_EQ(job["configuration"],
            "name = \"x\"  # <script>alert(1)</script>\\x1b[2J\"'&\nseed = 1\n");
}

TEST(JobJson, HasCurvesByTheBatchesOfAllPasses) {
  const Parsed job = finished_job();
  ASSERT_EQ(job["evaluators"].size(), 2U);
  EXPECT_EQ(job["evaluators"][0], Parsed({{"name", "auc"},
                                          {"higher_is_better", true},
                                          {"held_out", {{50, 0.75}, {100, 0.75}}},
                                          {"training", {{50, 0.7}, {100, 0.7}}},
                                          {"best", {{"value", 0.75}, {"pass", 0}}},
                                          {"last", {{"value", 0.75}, {"pass", 1}}}}));
  EXPECT_EQ(job["evaluators"][1]["name"], "cost");
  EXPECT_EQ(job["evaluators"][1]["held_out"], Parsed({{50, 1.25}, {100, 1.25}}));
  const Parsed& curve = job["curves"][0];
  EXPECT_EQ(curve["role"], "trainer-0");
  ASSERT_EQ(curve["cost"].size(), 10U);
  EXPECT_EQ(curve["cost"][0], Parsed({10, 2.9}));
  EXPECT_EQ(curve["cost"][9], Parsed({100, 1.5}));
  EXPECT_EQ(curve["rate"][0], Parsed({0.51, 1000}));
}

TEST(JobJson, HasPassesPortsAndLags) {
  const Parsed job = finished_job();
  ASSERT_EQ(job["passes"].size(), 4U);
  EXPECT_EQ(job["passes"][2],
            Parsed({{"pass", 1},
                    {"data", "training"},
                    {"examples", 1000},
                    {"cost", 1.5},
                    {"evaluators", Parsed::array({{{"name", "auc"}, {"value", 0.7}}})}}));
  EXPECT_EQ(job["passes"][3]["data"], "held-out");
  EXPECT_EQ(job["passes"][3]["examples"], 10);
  ASSERT_EQ(job["ports"].size(), 1U) << "a port that did nothing is left out";
  EXPECT_EQ(job["ports"][0]["port"], 7164);
  EXPECT_EQ(job["ports"][0]["sparse"], true);
  EXPECT_EQ(job["ports"][0]["rows"], 1'234'567);
  EXPECT_EQ(job["ports"][0]["bytes"], 5'000'000);
  EXPECT_EQ(job["lags"], Parsed({30, 10, 2}));
}

TEST(JobJson, TellsHowAndOnWhatTheJobRan) {
  const Parsed job = finished_job();
  EXPECT_EQ(job["commands"], Parsed::array({{{"unix_ms", 1'700'000'000'000},
                                             {"text", "paddlectl train --set a=1 w"},
                                             {"version", "0.1.0"}}}));
  ASSERT_EQ(job["machines"].size(), 1U);
  EXPECT_EQ(job["machines"][0]["processor"], "A CPU <b>");
  EXPECT_EQ(job["machines"][0]["cores"], 8);
  EXPECT_EQ(job["machines"][0]["agent_version"], "0.1.0");
}

TEST(JobJson, ProgressIsThatOfTheNewestLineThatTells) {
  EXPECT_EQ(finished_job()["progress"], nullptr) << "no line tells";
  JobRecord record;
  ProcessRecord leader;
  leader.role = "trainer-0";
  leader.metrics = {line_of("train", 1), line_of("test", 1)};
  leader.metrics[0].numbers = {{"passes", 10}, {"pass_done", 0.25}};
  record.processes.push_back(leader);
  EXPECT_EQ(json_of(record)["progress"],
            Parsed({{"pass", 1}, {"passes", 10}, {"pass_done", 0.25}}));
}

TEST(JobJson, OnlyWarningsAndErrorsOfALogAreEvents) {
  const Parsed job = finished_job();
  const std::string all = job["events"].dump();
  EXPECT_EQ(all.find("plain"), std::string::npos);
  EXPECT_NE(all.find("<script>"), std::string::npos);
  EXPECT_EQ(all.find("W1121"), std::string::npos) << "the time and the name have their own fields";
  EXPECT_EQ(job["events_total"], job["events"].size());
  EXPECT_TRUE(std::ranges::is_sorted(
      job["events"], {}, [](const Parsed& e) { return e["unix_ms"].get<std::int64_t>(); }));
}

TEST(JobJson, KeepsTheLastEventsAndPasses) {
  JobRecord record;
  for (int i = 0; i < 450; ++i) record.events.push_back({i, "r", std::string(700, 'x'), i == 7});
  ProcessRecord leader;
  leader.role = "trainer-0";
  for (std::uint64_t pass = 0; pass < 130; ++pass) leader.metrics.push_back(line_of("test", pass));
  record.processes.push_back(leader);
  const Parsed job = json_of(record);
  EXPECT_EQ(job["events_total"], 450);
  ASSERT_EQ(job["events"].size(), 400U);
  EXPECT_EQ(job["events"][0]["unix_ms"], 7) << "a fault is not lost among tests and snapshots";
  EXPECT_EQ(job["events"][1]["unix_ms"], 51);
  EXPECT_EQ(job["events"][0]["text"].get<std::string>().size(), 600U);
  EXPECT_EQ(job["passes_total"], 130);
  ASSERT_EQ(job["passes"].size(), 50U);
  EXPECT_EQ(job["passes"][0]["pass"], 80);
  EXPECT_EQ(job["passes"][0]["cost"], nullptr) << "a test without a number";
}

// As the headline names the best pass, the table must have it.
TEST(JobJson, KeepsTheBestPassesAmongManyAndTheLastLineOfEach) {
  JobRecord record;
  ProcessRecord leader;
  leader.role = "trainer-0";
  for (std::uint64_t pass = 0; pass < 150; ++pass) {
    leader.metrics.push_back(line_of("pass", pass));
    for (const double late : {0.5, 0.0}) {  // a test in the pass, then that of its end
      leader.metrics.push_back(line_of("test", pass));
      leader.metrics.back().cost = late + (pass == 69 ? 0.1 : 0.2);
      leader.metrics.back().numbers = {{"auc", pass == 12 ? 0.9 : 0.8}};
    }
  }
  record.processes.push_back(leader);
  const Parsed job = json_of(record);
  EXPECT_EQ(job["passes_total"], 150);
  std::vector<int> passes;
  for (const Parsed& one : job["passes"]) {
    passes.push_back(one["pass"]);
    if (one["data"] == "held-out") {
      EXPECT_LT(one["cost"], 0.3) << one;
    }
  }
  ASSERT_EQ(passes.size(), 104U) << "training and held-out data of 52 passes";
  EXPECT_EQ((std::vector<int>{passes[0], passes[1], passes[2], passes[3], passes[4], passes[103]}),
            (std::vector<int>{12, 12, 69, 69, 100, 149}));
}

TEST(JobJson, BytesThatAreNoTextDoNotBreakIt) {
  JobRecord record;
  record.job = "j\xff\xc3";
  record.configuration = "a\xff\nb\r\n";
  const Parsed job = json_of(record);
  EXPECT_EQ(job["job"], "j\\xff\\xc3");
  EXPECT_EQ(job["configuration"], "a\\xff\nb\\x0d\n");
}

// The log's figures of such a pass are those of its last run alone.
TEST(JobJson, APassOfSeveralRunsHasItsExamplesAndNoFigureOfTheLastRunAlone) {
  const auto trained = [](std::uint64_t pass, std::uint64_t batch, std::uint64_t samples) {
    MetricsLine line = line_of("train", pass);
    line.batch = batch;
    line.samples = samples;
    return line;
  };
  const auto ended = [](std::uint64_t pass, std::uint64_t samples) {
    MetricsLine line = line_of("pass", pass);
    line.batch = samples / 8;
    line.samples = samples;
    line.numbers = {{"total_samples", static_cast<double>(samples)},
                    {"total_cost", 0.25},
                    {"total_auc", 0.8842}};
    return line;
  };
  JobRecord record;
  ProcessRecord leader;
  leader.role = "trainer-0";
  // A run of pass 1 with 120 samples was stopped; the next one trained the other 928.
  leader.metrics = {ended(0, 1048),     trained(1, 10, 80), trained(1, 15, 120),
                    trained(1, 20, 40), ended(1, 928),      line_of("test", 1)};
  leader.metrics.back().cost = 0.5;
  leader.metrics.back().samples = 10;
  leader.metrics.back().numbers = {{"auc", 0.75}};
  record.processes.push_back(leader);
  const auto row = [&](std::size_t at) { return json_of(record)["passes"][at]; };
  ASSERT_EQ(json_of(record)["passes"].size(), 3U);
  EXPECT_EQ(row(0)["examples"], 1048);
  EXPECT_EQ(row(0)["cost"], 0.25);
  EXPECT_EQ(row(0)["evaluators"][0]["name"], "auc") << "a pass of one run keeps its figures";
  EXPECT_EQ(row(1)["data"], "training");
  EXPECT_EQ(row(1)["examples"], 1048);
  EXPECT_EQ(row(1)["cost"], nullptr);
  EXPECT_EQ(row(1)["evaluators"], Parsed::array());
  EXPECT_EQ(row(2)["data"], "held-out");
  EXPECT_EQ(row(2)["cost"], 0.5);
  EXPECT_EQ(row(2)["examples"], 10);
  EXPECT_EQ(row(2)["evaluators"], Parsed::array({{{"name", "auc"}, {"value", 0.75}}}));
  // The examples of the other trainer count too, however its lines are divided.
  ProcessRecord other;
  other.role = "trainer-1";
  other.metrics = {trained(1, 5, 50), ended(1, 950)};
  record.processes.push_back(other);
  EXPECT_EQ(row(1)["examples"], 1048 + 950);
  EXPECT_EQ(row(1)["cost"], nullptr);
}

}  // namespace
}  // namespace paddle::cli
