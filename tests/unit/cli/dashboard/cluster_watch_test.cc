#include "cli/dashboard/cluster_watch.h"

#include <gtest/gtest.h>

#include "base/json_reader.h"
#include "base/text.h"
#include "cli/report/job_json.h"
#include "tests/support/finished_job.h"
#include "tests/support/watched_cluster.h"

namespace paddle::cli {
namespace {

using testing::AssertionFailure;
using testing::AssertionResult;
using testing::AssertionSuccess;

AssertionResult has(const std::string& text, const std::string& part) {
  if (text.find(part) != std::string::npos) return AssertionSuccess();
  return AssertionFailure() << "no " << part << " in " << text;
}

// One object, which a browser can read, without a line break.
AssertionResult is_event_data(const std::string& text) {
  JsonReader reader({}, {.depth = 16, .items = 1U << 20U});
  if (text.find('\n') != std::string::npos) return AssertionFailure() << "a line break: " << text;
  if (!reader.read(text)) return AssertionFailure() << "no JSON: " << text;
  return AssertionSuccess();
}

constexpr const char* kMetrics = "jobs/j/node_0/metrics.jsonl";
constexpr const char* kLog = "jobs/j/node_0/train.log";

TEST(ClusterWatch, ShowsNodesAndJobs) {
  WatchedCluster cluster(2);
  cluster.start(0, "trainer-0");
  cluster.file(0, kMetrics) = train_line(10, 2.5);
  cluster.file(0, "jobs/j/settings.jsonl") =
      R"({"kind":"start","run":1,"tags":"lr b","note":"a note"})";
  cluster.round();
  EXPECT_TRUE(has(cluster.event("cluster"), R"("state": "connecting")"));
  cluster.watch.wait_for_connections();
  cluster.round();
  const std::string shown = cluster.event("cluster");
  EXPECT_TRUE(is_event_data(shown));
  EXPECT_TRUE(has(shown,
                  R"("unix_ms": 1700000000000, "cluster": "t", "nodes": [{"node": "n-0", )"
                  R"("state": "ready", "error": "", "cores": 4, "memory_bytes": 8000000000)"));
  EXPECT_TRUE(has(shown, R"("job": "j", "state": "running", "is_running": true, "has_failed": )"
                         "false, \"pass\": 0"));
  EXPECT_TRUE(has(shown, R"("tags": ["lr", "b"], "note": "a note")"));
  cluster.fake.node(1).usage.cpu_busy_ms += 3'000;
  cluster.fake.node(1).usage.received_bytes += 5'000;
  cluster.round();
  EXPECT_TRUE(has(cluster.event("cluster"), R"("cores_busy": 1.5)"));
  EXPECT_TRUE(has(cluster.event("cluster"), R"("in_per_s": 2500)"));
  EXPECT_TRUE(has(cluster.store.metrics(), "paddle_"));
}

TEST(ClusterWatch, AJobThatStartsAppearsInTheNextRound) {
  WatchedCluster cluster(1);
  cluster.connect();
  EXPECT_EQ(cluster.event("gone"), R"({"job": "j"})") << "no node knows it yet";
  cluster.start(0, "trainer-0");
  cluster.round();
  EXPECT_TRUE(has(cluster.event("cluster"), R"("job": "j")"));
  EXPECT_TRUE(has(cluster.event("job"), R"("role": "trainer-0")"));
}

// The page of a job that is looked at live shows what its report shows.
TEST(ClusterWatch, AJobHasTheRecordOfItsReport) {
  const test::FinishedJob job;
  WatchedCluster cluster(1);
  for (const char* const name :
       {"metrics.jsonl", "metrics-1.jsonl", "server-metrics.jsonl", "train.log"}) {
    const std::string folder = std::string(name).starts_with("metrics-1") ? "node_1/" : "node_0/";
    cluster.file(0, "jobs/j/" + folder + name) =
        test::TemporaryFolder::read(job.folder / ("j/" + folder + name));
  }
  cluster.file(0, "jobs/j/workspace/job.toml") =
      test::TemporaryFolder::read(job.folder / "j/job.toml");
  for (const std::string name : {"pserver-0", "trainer-0", "trainer-1"}) {
    remote::ProcessStatus& status = cluster.start(0, name);
    status.state = remote::ProcessState::kExited;
    status.started_unix_ms = 1'700'000'000'500;
    status.ended_unix_ms = 1'700'000'002'500;
    if (name == "trainer-1") status.log = "jobs/j/node_1/train-1.log";
    if (name == "trainer-1") status.exit_code = 6;
  }
  cluster.connect();
  // The report, by way of a folder.
  ClusterSession session = cluster.fake.session();
  JobView view("j");
  view.look(cluster.fake.context, session);
  const std::string folder = job.folder.path() + "/j";
  std::filesystem::remove(folder + "/commands.jsonl");
  ASSERT_TRUE(write_processes(folder, view));
  ASSERT_TRUE(write_machines(folder, session));
  const auto record = read_job_record(folder, "j");
  ASSERT_TRUE(record);
  const std::string live = cluster.event("job");
  for (const auto& [key, value] : job_fields(*record, figures_of(*record))) {
    if (key == "processes") continue;  // has "now" as well
    EXPECT_TRUE(has(live, "\"" + key + "\": " + value.text())) << key;
  }
  EXPECT_TRUE(has(live, R"("examples": 1000, "rate": 1000)"));
  EXPECT_TRUE(has(live, R"("live": {"running": false)"));
}

TEST(ClusterWatch, SaysWhatEachProcessDoesNow) {
  WatchedCluster cluster(1);
  remote::Progress& progress = *cluster.start(0, "trainer-0").progress;
  progress.pass = 1;
  progress.passes = 3;
  progress.batch = 40;
  progress.pass_done = 0.25;
  progress.cost = 1.5;
  progress.has_cost = true;
  progress.examples_per_second = 500;
  cluster.connect();
  const std::string shown = cluster.event("job");
  EXPECT_TRUE(is_event_data(shown));
  EXPECT_TRUE(has(shown, R"("now": {"state": "running", "is_fault": false, "waits_for": "", )"
                         R"("pass": 1, "pass_done": 0.25, "batch": 40, "cost": 1.5, "rate": 500)"));
  EXPECT_TRUE(has(shown,
                  R"("live": {"running": true, "stalls": [], "left_ms": null, "loss": null, )"
                  R"("failure": null, "broken_start": null, "diverged_to": null)"));
}

// The mean over the whole job, which the report shows, would not name it for a long time.
TEST(ClusterWatch, ATrainerThatBecameSlowIsNamedAsByStatus) {
  WatchedCluster cluster(1);
  for (const char* const name : {"trainer-0", "trainer-1", "trainer-2"}) {
    remote::ProcessStatus& status = cluster.start(0, name);
    status.trainers = 3;
    status.progress->examples_per_second = name[8] == '2' ? 100 : 1000;
    const std::string number = name[8] == '0' ? "" : fmt::format("-{}", name[8]);
    std::string& metrics = cluster.file(0, fmt::format("jobs/j/node_0/metrics{}.jsonl", number));
    for (int batch = 1; batch <= 60; ++batch) {
      std::string line = train_line(batch, 2);
      if (name[8] == '2' && batch > 50) line.replace(line.find(":1000,"), 6, ":100,");
      metrics += line;
    }
  }
  cluster.connect();
  cluster.round();
  const std::string shown = cluster.event("job");
  EXPECT_TRUE(has(shown, R"("slow": ["trainer-2 on n-0 is slow: 100 examples/s, 10 % of)"))
      << shown;
  EXPECT_TRUE(has(shown, R"("slow": true)"));
}

// The end of `paddlectl train` prints the same.
TEST(ClusterWatch, AFailedJobHasItsFirstCauseAndTheLastLinesOfThatLog) {
  WatchedCluster cluster(2);
  for (const std::size_t node : {0U, 1U}) {
    remote::ProcessStatus& status = cluster.start(node, fmt::format("trainer-{}", node));
    status.trainers = 2;
    status.state = remote::ProcessState::kExited;
    status.exit_code = node == 1 ? 6 : 4;  // trainer-0 lost a peer
    status.ended_unix_ms = 9'000 - static_cast<std::int64_t>(1'000 * node);
    if (node == 1) status.failure = Error{Errc::kData, "record 7 is malformed", "look at it"};
  }
  std::string& log = cluster.file(1, "jobs/j/node_1/train-1.log");
  for (int line = 0; line < 100; ++line) log += fmt::format("line {}\n", line);
  log +=
      std::string(5'000, 'x') + "\n\xff<script>\npaddle: record 7 is malformed\nhint: look at it\n";
  cluster.connect();
  while (cluster.watch.has_more()) cluster.round();
  const std::string shown = cluster.event("job");
  EXPECT_TRUE(is_event_data(shown));
  EXPECT_TRUE(has(shown,
                  R"("failure": {"process": "trainer-1", )"
                  R"("cause": "trainer-1 on n-1 exited with code 6: record 7 is malformed", )"
                  R"("hint": "look at it; the whole log: paddlectl logs --node n-1)"));
  EXPECT_TRUE(has(shown, R"("lines": ["line 87")")) << "the last ones";
  EXPECT_TRUE(has(shown, "\"" + std::string(1'000, 'x') + "\", "));
  EXPECT_FALSE(has(shown, R"("hint: look at it")")) << "it stands once";
  cluster.fake.node(1).processes[0].state = remote::ProcessState::kRunning;
  cluster.fake.node(1).processes[0].run = 2;
  cluster.round();
  EXPECT_TRUE(has(cluster.event("job"), R"("failure": null)"));
}

TEST(ClusterWatch, AnEndedJobKeepsItsStateWhileANodeIsLost) {
  WatchedCluster cluster(2);
  for (const std::size_t node : {0U, 1U}) {
    remote::ProcessStatus& status = cluster.start(node, fmt::format("trainer-{}", node));
    status.trainers = 2;
    status.state = remote::ProcessState::kExited;
    status.ended_unix_ms = 9'000;
  }
  cluster.connect();
  EXPECT_TRUE(has(cluster.event("cluster"), R"("job": "j", "state": "done")"));
  cluster.fake.node(1).unreachable = true;
  cluster.round();
  cluster.round();
  EXPECT_TRUE(has(cluster.event("cluster"), R"("job": "j", "state": "done")"));
}

TEST(ClusterWatch, AJobWhoseNodesDoNotAnswerKeepsItsProgressAndHasNoStateForPrometheus) {
  WatchedCluster cluster(1);
  remote::Progress& progress = *cluster.start(0, "trainer-0").progress;
  progress.pass = 2;
  progress.passes = 4;
  progress.cost = 1.5;
  progress.has_cost = true;
  cluster.connect();
  EXPECT_TRUE(has(cluster.store.metrics(), R"(paddle_job_running{cluster="t",job_name="j"} 1)"));
  cluster.fake.node(0).unreachable = true;
  cluster.round();
  cluster.round();
  EXPECT_TRUE(has(cluster.event("cluster"), R"("pass": 2, "passes": 4)"));
  EXPECT_TRUE(has(cluster.store.metrics(), "paddle_job_info"));
  EXPECT_FALSE(has(cluster.store.metrics(), "paddle_job_running{"));
  EXPECT_FALSE(has(cluster.store.metrics(), "paddle_job_failed{"));
}

TEST(ClusterWatch, ASmallerRunHasItsOwnNumbersOfProcesses) {
  WatchedCluster cluster(2);
  cluster.start(0, "trainer-0").trainers = 2;
  cluster.start(1, "trainer-1").trainers = 2;
  cluster.connect();
  EXPECT_TRUE(has(cluster.event("cluster"), R"("trainers": 2)"));
  cluster.fake.node(1).processes.clear();
  cluster.fake.node(0).processes[0].trainers = 1;
  cluster.fake.node(0).processes[0].run = 2;
  cluster.round();
  EXPECT_TRUE(has(cluster.event("cluster"), R"("trainers": 1)"));
}

TEST(ClusterWatch, OnlyWhatHasChangedIsSent) {
  WatchedCluster cluster(1);
  cluster.start(0, "trainer-0");
  cluster.file(0, kMetrics) = train_line(10, 2.5);
  cluster.file(0, "jobs/j/workspace/job.toml") = "seed = 1\n";
  cluster.connect();
  EXPECT_TRUE(has(cluster.event("job"), R"("configuration": "seed = 1\n")"));
  const std::uint64_t seen = cluster.version();
  cluster.file(0, kMetrics) += train_line(20, 2.25);
  cluster.round();
  const std::string changed = cluster.event("job", "j", seen);
  EXPECT_TRUE(has(changed, R"("curves": [{"role": "trainer-0", "cost": [[10, 2.5], [20, 2.25]])"));
  EXPECT_FALSE(has(changed, "configuration"));
  EXPECT_FALSE(has(changed, "machines"));
  EXPECT_FALSE(has(changed, "events"));
}

TEST(ClusterWatch, ReadsNoByteTwice) {
  WatchedCluster cluster(1);
  cluster.start(0, "trainer-0");
  for (int batch = 1; batch <= 2'000; ++batch) cluster.file(0, kMetrics) += train_line(batch, 2);
  cluster.file(0, kLog) = "W1121 19:27:48.123456 trainer-0] first\n";
  cluster.connect();
  while (cluster.watch.has_more()) cluster.round();
  EXPECT_EQ(cluster.requests.bytes[kMetrics], cluster.file(0, kMetrics).size());
  cluster.file(0, kMetrics) += train_line(2'001, 2);
  cluster.file(0, kLog) += "W1121 19:27:49.123456 trainer-0] second\n";
  for (int i = 0; i < 5; ++i) cluster.round();
  EXPECT_EQ(cluster.requests.bytes[kMetrics], cluster.file(0, kMetrics).size());
  EXPECT_LE(cluster.requests.bytes[kLog], cluster.file(0, kLog).size() + 1)
      << "a probe of its size";
  EXPECT_TRUE(has(cluster.event("job"), "second"));
}

TEST(ClusterWatch, AnEndedJobIsReadOnce) {
  WatchedCluster cluster(1);
  remote::ProcessStatus& status = cluster.start(0, "trainer-0");
  status.state = remote::ProcessState::kExited;
  status.ended_unix_ms = 9'000;
  cluster.file(0, kMetrics) = train_line(10, 2.5);
  cluster.file(0, kLog) = "one\n";
  cluster.connect();
  EXPECT_TRUE(has(cluster.event("cluster"), R"("state": "done")"));
  const std::size_t reads = cluster.requests.reads;
  const std::uint64_t seen = cluster.version();
  for (int i = 0; i < 5; ++i) cluster.round();
  EXPECT_EQ(cluster.requests.reads, reads);
  EXPECT_EQ(cluster.event("job", "j", seen), "") << "nothing of it has changed";
  EXPECT_TRUE(has(cluster.event("job"), "[10, 2.5]")) << "it stays";
  cluster.fake.node(0).processes[0].state = remote::ProcessState::kRunning;
  cluster.fake.node(0).processes[0].incarnation = 2;
  cluster.file(0, kMetrics) += train_line(20, 2.25);
  cluster.round();
  EXPECT_TRUE(has(cluster.event("job", "j", seen), "[20, 2.25]")) << "started again, it is read";
}

TEST(ClusterWatch, OfAJobThatNobodyLooksAtOnlyTheEndIsRead) {
  WatchedCluster cluster(1);
  cluster.start(0, "trainer-0");
  for (int batch = 1; batch <= 2'000; ++batch) cluster.file(0, kMetrics) += train_line(batch, 2);
  cluster.connect({});
  EXPECT_TRUE(has(cluster.event("cluster"), R"("pass": 0)"));
  EXPECT_LT(cluster.requests.bytes[kMetrics], 20'000U);
  EXPECT_EQ(cluster.event("job"), "");
  cluster.round({"j"});
  while (cluster.watch.has_more()) cluster.round({"j"});
  EXPECT_TRUE(has(cluster.event("job"), R"("cost": [[1, 2])")) << "from its first line";
}

TEST(ClusterWatch, ARemovedJobIsGone) {
  WatchedCluster cluster(2);
  cluster.start(1, "trainer-0");
  cluster.connect();
  const std::uint64_t seen = cluster.version();
  cluster.fake.node(1).processes.clear();
  cluster.round();
  EXPECT_EQ(cluster.event("gone", "j", seen), R"({"job": "j"})");
  EXPECT_FALSE(has(cluster.event("cluster"), R"("job": "j")"));
  EXPECT_FALSE(cluster.log("trainer-0"));
}

TEST(ClusterWatch, ALostNodeKeepsWhatItShowed) {
  WatchedCluster cluster(2);
  cluster.start(0, "trainer-0").trainers = 2;
  cluster.start(1, "trainer-1").trainers = 2;
  cluster.file(1, "jobs/j/node_1/metrics-1.jsonl") = train_line(10, 2.5);
  cluster.connect();
  cluster.fake.node(1).unreachable = true;
  cluster.round();
  cluster.round();
  const std::string job = cluster.event("job");
  EXPECT_TRUE(is_event_data(job));
  EXPECT_TRUE(has(job, R"("unreachable": ["n-1"])"));
  EXPECT_TRUE(has(job, R"("now": {"state": "node n-1 does not answer", "is_fault": true)"));
  EXPECT_TRUE(has(job, R"({"role": "trainer-1", "cost": [[10, 2.5]])")) << "its curve stays";
  EXPECT_TRUE(
      has(cluster.event("cluster"), R"("node": "n-1", "state": "unreachable", "error": "n)"));
  EXPECT_TRUE(has(cluster.event("cluster"), R"("loss": "n-1 does not answer")"));
  EXPECT_EQ(cluster.log("trainer-1").error().code, Errc::kUnreachable);
  // All of the job may be on nodes that do not answer.
  cluster.fake.node(0).unreachable = true;
  cluster.round();
  EXPECT_EQ(cluster.event("gone"), "");
  EXPECT_TRUE(has(cluster.event("job"), R"("live": {"running": true)")) << "as far as is known";
  EXPECT_TRUE(has(cluster.event("job"), R"("unreachable": ["n-0", "n-1"])"));
  EXPECT_TRUE(has(cluster.event("job"), R"("now": {"state": "node n-0 does not answer")"));
  EXPECT_TRUE(has(cluster.event("cluster"), R"("job": "j", "state": "unknown")"));
  cluster.watch.wait_for_connections();
  for (remote::FakeNode& node : cluster.fake.nodes) node.unreachable = false;
  cluster.file(1, "jobs/j/node_1/metrics-1.jsonl") += train_line(20, 2.25);
  for (int i = 0; i < 2; ++i) {  // the first one ends the attempts that have failed
    cluster.fake.clock.time += std::chrono::minutes(2);
    cluster.connect();
  }
  EXPECT_TRUE(has(cluster.event("job"), R"("unreachable": [])"));
  EXPECT_TRUE(has(cluster.event("job"), R"("cost": [[10, 2.5], [20, 2.25]])"));
}

TEST(ClusterWatch, ConnectsAgainWithGrowingPauses) {
  WatchedCluster cluster(2);
  cluster.connect();
  cluster.fake.node(1).unreachable = true;
  for (int second = 0; second < 300; second += 2) {
    cluster.round();
    cluster.watch.wait_for_connections();
  }
  const int tries = cluster.requests.connections["n-1"];
  EXPECT_GE(tries, 8);
  EXPECT_LE(tries, 14) << "1, 2, 4, ... 60 s";
  EXPECT_EQ(cluster.requests.connections["n-0"], 1);
}

// All connections of a laptop that slept are dead, and its clock stood still or jumped.
TEST(ClusterWatch, AfterALaptopSleptAllNodesAreConnectedAgain) {
  WatchedCluster cluster(2);
  cluster.start(0, "trainer-0");
  cluster.connect();
  for (remote::FakeNode& node : cluster.fake.nodes) node.breaks_after = 1;
  cluster.fake.clock.time += std::chrono::hours(8);
  cluster.round();
  EXPECT_TRUE(has(cluster.event("cluster"), R"("state": "unreachable")"));
  cluster.connect();
  EXPECT_FALSE(has(cluster.event("cluster"), R"("state": "unreachable")"));
  EXPECT_TRUE(has(cluster.event("job"), R"("unreachable": [])"));
}

TEST(ClusterWatch, ANodeWithoutTheClustersFolderMayGetOne) {
  WatchedCluster cluster(1);
  cluster.absent = {"n-0"};
  cluster.connect();
  EXPECT_TRUE(has(cluster.event("cluster"), R"("state": "absent")"));
  cluster.absent.clear();
  cluster.fake.clock.time += std::chrono::minutes(1);
  cluster.connect();
  EXPECT_TRUE(has(cluster.event("cluster"), R"("state": "ready")"));
}

TEST(ClusterWatch, AResumedJobHasItsNewSettings) {
  WatchedCluster cluster(1);
  cluster.start(0, "trainer-0");
  cluster.file(0, "jobs/j/settings.jsonl") = R"({"kind":"start","run":1,"note":"first"})";
  cluster.connect();
  EXPECT_TRUE(has(cluster.event("job"), R"("note": "first")"));
  const std::uint64_t seen = cluster.version();
  cluster.file(0, "jobs/j/settings.jsonl") = R"({"kind":"start","run":2,"note":"second"})";
  cluster.round();
  EXPECT_FALSE(has(cluster.event("job", "j", seen), "note")) << "a run has one record";
  cluster.fake.node(0).processes[0].run = 2;
  cluster.round();
  EXPECT_TRUE(has(cluster.event("job", "j", seen), R"("note": "second")"));
}

TEST(ClusterWatch, AResumedJobOnAReplacedNodeIsReadFromItsBegin) {
  WatchedCluster cluster(1);
  cluster.start(0, "trainer-0");
  for (int batch = 1; batch <= 100; ++batch) cluster.file(0, kMetrics) += train_line(batch, 2);
  cluster.connect();
  cluster.file(0, kMetrics) = train_line(7, 1.25);
  cluster.fake.node(0).processes[0].run = 2;
  cluster.round();
  EXPECT_TRUE(has(cluster.event("job"), R"("cost": [[7, 1.25]])"));
}

TEST(ClusterWatch, MessagesOfManyProcessesCostLittle) {
  WatchedCluster cluster(1);
  for (int trainer = 0; trainer < 100; ++trainer) {
    const std::string log = cluster.start(0, "trainer-" + std::to_string(trainer)).log;
    for (int i = 0; i < 200; ++i)
      cluster.file(0, log) += fmt::format("W1121 19:27:48.123456 t] {} of {}\n", i, trainer);
  }
  cluster.connect();
  EXPECT_TRUE(has(cluster.event("job"), R"("events_total": 4001)")) << "the last ones, and a start";
}

TEST(ClusterWatch, NothingANodeSendsBreaksTheJson) {
  WatchedCluster cluster(1);
  const std::string evil =
      std::string(test::kEvilText) + "\n\r\xff\xe2\x80\xa8" + std::string(1, '\0');
  cluster.start(0, "trainer-0");
  cluster.start(0, "trainer-1").name = evil;
  cluster.start(0, "trainer-2").arguments = {evil};
  cluster.start(0, "trainer-3").log = "../../etc/passwd";
  cluster.start(0, "trainer-4").log = "jobs/other/node_0/train.log";
  cluster.start(0, "trainer-5").log = "jobs/j/../other/train.log";
  cluster.start(0, "trainer-0", "../up");
  cluster.start(0, "trainer-0", evil);
  for (const std::string name : {"trainer-3", "trainer-4", "trainer-5"})
    EXPECT_EQ(cluster.log(name).error().code, Errc::kUsage);
  cluster.fake.node(0).gpus = {{evil, evil}};
  cluster.file(0, "jobs/j/settings.jsonl") =
      Json::object({{"kind", "start"}, {"run", 1}, {"tags", evil}, {"note", evil}}).text();
  cluster.file(0, "jobs/j/workspace/job.toml") = evil;
  cluster.file(0, kMetrics) =
      train_line(10, 2.5) +
      "{\"kind\":\"train\",\"pass\":1e300,\"batch\":-5,\"samples\":1e400,\"cost\":NaN,"
      "\"current_cost\":Infinity,\"unix_ms\":1e17,\"passes\":1e300,\"pass_done\":-1e300}\n"
      "{\"kind\":\"test\",\"<b>\":1,\"cost\":1e308,\"unix_ms\":-1}\n{\"kind\":[]}\n\xff\n" +
      std::string(100'000, '{') + "\n" + Json::object({{"kind", evil}, {evil, 1}}).text() + "\n";
  cluster.file(0, kLog) = "E1121 19:27:48.123456 trainer-0] " + evil + "\n";
  cluster.connect({"j", "../up", evil});
  cluster.round({"j", "../up", evil});
  EXPECT_TRUE(is_event_data(cluster.event("cluster")));
  EXPECT_TRUE(is_event_data(cluster.event("job")));
  EXPECT_TRUE(has(cluster.event("job"), "[10, 2.5]"));
  EXPECT_FALSE(has(cluster.event("cluster"), "../up")) << "no command could name that job";
  for (const std::string name : {"trainer-3", "trainer-4", "trainer-5"}) {
    EXPECT_FALSE(cluster.log(name)) << name;
  }
  EXPECT_EQ(cluster.requests.bytes.count("../../etc/passwd"), 0U);
}

TEST(ClusterWatch, TheLogOfAProcessIsReadForItsViewers) {
  WatchedCluster cluster(1);
  cluster.start(0, "trainer-0");
  cluster.file(0, kLog) = "one\ntwo\n";
  cluster.connect({});
  const auto part = cluster.log("trainer-0");
  ASSERT_TRUE(part);
  EXPECT_EQ(part->text, "one\ntwo\n");
  const std::size_t reads = cluster.requests.reads;
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(cluster.log("trainer-0", 4)) << "ten browsers";
  EXPECT_EQ(cluster.requests.reads, reads);
  EXPECT_EQ(cluster.log("trainer-9").error().code, Errc::kUsage);
  std::vector<LogRequest> many;
  std::size_t answers = 0;
  for (std::size_t i = 0; i < kLogsKeptMax; ++i)
    many.push_back({"j", "trainer-" + std::to_string(i % 3), {}, [&](auto) { ++answers; }});
  cluster.watch.read_logs(std::move(many));
  EXPECT_EQ(answers, kLogsKeptMax);
}

TEST(ClusterWatch, AJobWithoutAPlaceSaysSoWithAllKeysOfARecord) {
  WatchedCluster cluster(1);
  cluster.start(0, "trainer-0");
  cluster.connect();
  const auto keys_of = [](const std::string& event) {
    std::set<std::string> keys;
    for (const char* const key : {"job", "processes", "curves", "evaluators", "progress", "tags",
                                  "commands", "machines", "events", "slow", "live"})
      if (event.find(fmt::format("\"{}\": ", key)) != std::string::npos) keys.insert(key);
    return keys;
  };
  const std::set<std::string> all = keys_of(cluster.event("job"));
  EXPECT_EQ(all.size(), 11U);
  cluster.fake.clock.time += std::chrono::seconds(2);
  cluster.store.publish(cluster.watch.round({}, {"j", "unknown"}));
  const std::string crowded = cluster.event("job");
  EXPECT_TRUE(is_event_data(crowded));
  EXPECT_EQ(keys_of(crowded), all);
  EXPECT_TRUE(has(crowded, R"("live": {"running": true, "stalls": ["the dashboard reads the )"
                           "records of 16 jobs at most"));
  EXPECT_FALSE(has(crowded, "trainer-0"));
  EXPECT_EQ(cluster.event("job", "unknown"), "");
  cluster.round();
  EXPECT_TRUE(has(cluster.event("job"), R"("role": "trainer-0")"));
  EXPECT_TRUE(has(cluster.event("job"), R"("stalls": [])"));
}

TEST(ClusterWatch, ALongJobIsReadInPiecesAndThinned) {
  WatchedCluster cluster(1);
  cluster.start(0, "trainer-0");
  std::string& metrics = cluster.file(0, kMetrics);
  for (int batch = 1; batch <= 20'000; ++batch)
    metrics += train_line(batch, batch == 7'000 ? 9 : 2);
  cluster.connect();
  EXPECT_TRUE(cluster.watch.has_more());
  EXPECT_TRUE(is_event_data(cluster.event("job"))) << "what was read so far is shown";
  int rounds = 0;
  for (; cluster.watch.has_more() && rounds < 100; ++rounds) cluster.round();
  EXPECT_GT(rounds, 1);
  const std::string job = cluster.event("job");
  EXPECT_TRUE(has(job, "[7000, 9]")) << "the peak stays";
  EXPECT_TRUE(has(job, "[20000, 2]"));
  EXPECT_TRUE(has(job, R"("examples": 200000, "rate": 1000)")) << "of all lines";
}

}  // namespace
}  // namespace paddle::cli
