#include "cli/report/job_json.h"

#include <cmath>
#include <memory>

#include <gtest/gtest.h>

#include "base/json_reader.h"
#include "tests/support/finished_job.h"

namespace paddle::cli {
namespace {

// Turns a parsed value back into a Json, to compare it with one that was built.
Json written(const JsonValue& value) {
  if (value.is_null()) return {};
  if (value.is_bool()) return value.truth();
  if (value.is_number()) return Json::number(value.number());
  if (value.is_text()) return value.text();
  std::vector<Json> items;
  Json::Fields members;
  const JsonValue* item = value.items();
  for (std::size_t i = 0; i < value.size(); ++i, item = item->next()) {
    const std::string_view key = value.is_object() ? item->text() : "";
    if (value.is_object()) item = item->next();
    items.push_back(written(*item));
    members.emplace_back(key, items.back());
  }
  return value.is_object() ? Json::object(members) : Json::list(items);
}

// A value in a JSON text.
class Parsed {
 public:
  explicit Parsed(const std::string& text)
      : reader_(std::make_shared<JsonReader>(std::vector<std::string>())) {
    if (reader_->read(text)) value_ = &reader_->object();
    EXPECT_NE(value_, nullptr) << text;
  }

  std::size_t size() const { return value_ == nullptr ? 0 : value_->size(); }
  double number() const {  // NaN, which compares with nothing, if it is no number
    return value_ != nullptr && value_->is_number() ? value_->number() : std::nan("");
  }
  std::string text() const { return value_ == nullptr ? "none" : written(*value_).text(); }
  // An item of a list, and the value of a member; none if there is no such.
  Parsed operator[](std::size_t index) const {
    if (value_ == nullptr || !value_->is_list() || index >= size()) return {reader_, nullptr};
    const JsonValue* item = value_->items();
    for (std::size_t i = 0; i < index; ++i) item = item->next();
    return {reader_, item};
  }
  Parsed operator[](std::string_view key) const {
    const bool is_object = value_ != nullptr && value_->is_object();
    const JsonValue* member = is_object ? value_->items() : nullptr;
    for (std::size_t i = 0; is_object && i < size(); ++i, member = member->next()->next())
      if (member->text() == key) return {reader_, member->next()};
    return {reader_, nullptr};
  }

  friend bool operator==(const Parsed& value, const Json& json) {
    return value.text() == json.text();
  }
  friend void PrintTo(const Parsed& value, std::ostream* out) { *out << value.text(); }

 private:
  Parsed(std::shared_ptr<JsonReader> reader, const JsonValue* value)
      : reader_(std::move(reader)), value_(value) {}

  std::shared_ptr<JsonReader> reader_;
  const JsonValue* value_ = nullptr;
};

Parsed json_of(const JobRecord& record) {
  return Parsed(job_json(record));
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
  EXPECT_EQ(job["processes"][0]["rate"].text(), "none") << "a pserver trains on nothing";
  EXPECT_EQ(job["slow"].text(),
            R"(["trainer-1 on n-1 is slow: 100 examples/s, 10 % of the others' median 1000"])");
  EXPECT_EQ(job["configuration"],
            "name = \"x\"  # <script>alert(1)</script>\\x1b[2J\"'&\nseed = 1\n");
}

TEST(JobJson, HasCurvesByTheBatchesOfAllPasses) {
  const Parsed job = finished_job();
  ASSERT_EQ(job["evaluators"].size(), 2U);
  EXPECT_EQ(
      job["evaluators"][0].text(),
      R"({"name": "auc", "higher_is_better": true, "one_is_best": false, "held_out": [[50, 0.75], [100, 0.75]], )"
      R"("training": [[50, 0.7], [100, 0.7]], "best": {"value": 0.75, "pass": 0}, )"
      R"("last": {"value": 0.75, "pass": 1}})");
  EXPECT_EQ(job["evaluators"][1]["name"], "cost");
  EXPECT_EQ(job["evaluators"][1]["held_out"].text(), "[[50, 1.25], [100, 1.25]]");
  const Parsed& curve = job["curves"][0];
  EXPECT_EQ(curve["role"], "trainer-0");
  ASSERT_EQ(curve["cost"].size(), 10U);
  EXPECT_EQ(curve["cost"][0].text(), "[10, 2.9]");
  EXPECT_EQ(curve["cost"][9].text(), "[100, 1.5]");
  EXPECT_EQ(curve["rate"][0].text(), "[0.51, 1000]");
}

TEST(JobJson, HasPassesPortsAndLags) {
  const Parsed job = finished_job();
  ASSERT_EQ(job["passes"].size(), 4U);
  EXPECT_EQ(job["passes"][2].text(),
            R"({"pass": 1, "data": "training", "examples": 1000, "cost": 1.5, )"
            R"("evaluators": [{"name": "auc", "value": 0.7}]})");
  EXPECT_EQ(job["passes"][3]["data"], "held-out");
  EXPECT_EQ(job["passes"][3]["examples"], 10);
  ASSERT_EQ(job["ports"].size(), 1U) << "a port that did nothing is left out";
  EXPECT_EQ(job["ports"][0]["port"], 7164);
  EXPECT_EQ(job["ports"][0]["sparse"], true);
  EXPECT_EQ(job["ports"][0]["rows"], 1'234'567);
  EXPECT_EQ(job["ports"][0]["bytes"], 5'000'000);
  EXPECT_EQ(job["lags"].text(), "[30, 10, 2]");
}

TEST(JobJson, TellsHowAndOnWhatTheJobRan) {
  const Parsed job = finished_job();
  EXPECT_EQ(job["commands"].text(),
            R"([{"unix_ms": 1700000000000, "text": "paddlectl train --set a=1 w", )"
            R"("version": "0.1.0"}])");
  ASSERT_EQ(job["machines"].size(), 1U);
  EXPECT_EQ(job["machines"][0]["processor"], "A CPU <b>");
  EXPECT_EQ(job["machines"][0]["cores"], 8);
  EXPECT_EQ(job["machines"][0]["agent_version"], "0.1.0");
}

TEST(JobJson, ProgressIsThatOfTheNewestLineThatTells) {
  EXPECT_EQ(finished_job()["progress"].text(), "null") << "no line tells";
  JobRecord record;
  ProcessRecord leader;
  leader.role = "trainer-0";
  leader.metrics = {line_of("train", 1), line_of("test", 1)};
  leader.metrics[0].numbers = {{"passes", 10}, {"pass_done", 0.25}};
  record.processes.push_back(leader);
  EXPECT_EQ(json_of(record)["progress"].text(), R"({"pass": 1, "passes": 10, "pass_done": 0.25})");
}

TEST(JobJson, OnlyWarningsAndErrorsOfALogAreEvents) {
  const Parsed job = finished_job();
  const std::string all = job["events"].text();
  EXPECT_EQ(all.find("plain"), std::string::npos);
  EXPECT_NE(all.find("<script>"), std::string::npos);
  EXPECT_EQ(all.find("W1121"), std::string::npos) << "the time and the name have their own fields";
  EXPECT_EQ(job["events_total"], job["events"].size());
  for (std::size_t i = 1; i < job["events"].size(); ++i)
    EXPECT_GE(job["events"][i]["unix_ms"].number(), job["events"][i - 1]["unix_ms"].number());
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
  EXPECT_EQ(job["events"][0]["text"], std::string(600, 'x'));
  EXPECT_EQ(job["passes_total"], 130);
  ASSERT_EQ(job["passes"].size(), 50U);
  EXPECT_EQ(job["passes"][0]["pass"], 80);
  EXPECT_EQ(job["passes"][0]["cost"].text(), "null") << "a test without a number";
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
  std::vector<double> passes;
  for (std::size_t i = 0; i < job["passes"].size(); ++i) {
    const Parsed one = job["passes"][i];
    passes.push_back(one["pass"].number());
    if (one["data"] == "held-out") {
      EXPECT_LT(one["cost"].number(), 0.3) << one.text();
    }
  }
  ASSERT_EQ(passes.size(), 104U) << "training and held-out data of 52 passes";
  EXPECT_EQ(
      (std::vector<double>{passes[0], passes[1], passes[2], passes[3], passes[4], passes[103]}),
      (std::vector<double>{12, 12, 69, 69, 100, 149}));
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
  EXPECT_EQ(row(0)["cost"].text(), "0.25");
  EXPECT_EQ(row(0)["evaluators"][0]["name"], "auc") << "a pass of one run keeps its figures";
  EXPECT_EQ(row(1)["data"], "training");
  EXPECT_EQ(row(1)["examples"], 1048);
  EXPECT_EQ(row(1)["cost"].text(), "null");
  EXPECT_EQ(row(1)["evaluators"].text(), "[]");
  EXPECT_EQ(row(2)["data"], "held-out");
  EXPECT_EQ(row(2)["cost"].text(), "0.5");
  EXPECT_EQ(row(2)["examples"], 10);
  EXPECT_EQ(row(2)["evaluators"].text(), R"([{"name": "auc", "value": 0.75}])");
  // The examples of the other trainer count too, however its lines are divided.
  ProcessRecord other;
  other.role = "trainer-1";
  other.metrics = {trained(1, 5, 50), ended(1, 950)};
  record.processes.push_back(other);
  EXPECT_EQ(row(1)["examples"], 1048 + 950);
  EXPECT_EQ(row(1)["cost"].text(), "null");
}

}  // namespace
}  // namespace paddle::cli
