#include "cli/watch/view.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/support/fake_cluster.h"

namespace paddle::cli {
namespace {

// Trainer 0 of job j.
remote::ProcessStatus trainer_0(remote::ProcessState state) {
  remote::ProcessStatus status;
  status.job = "j";
  status.name = "trainer-0";
  status.log = "jobs/j/node_0/train.log";
  status.state = state;
  return status;
}

ProcessView trainer(const std::string& name, std::optional<double> rate,
                    std::optional<double> busy_rate = {}) {
  ProcessView view;
  view.node = "n";
  view.status.name = name;
  view.status.state = remote::ProcessState::kRunning;
  view.usual_rate = rate;
  view.usual_busy_rate = busy_rate;
  return view;
}

TEST(SlowTrainers, AreThoseWellBelowTheMedianOfTheOthers) {
  EXPECT_TRUE(slow_trainers({trainer("trainer-0", 100), trainer("trainer-1", 75)}).empty());
  const auto slow = slow_trainers({trainer("trainer-0", 100), trainer("trainer-1", 60),
                                   trainer("trainer-2", 110), trainer("trainer-3", {})});
  ASSERT_EQ(slow.size(), 1U);
  EXPECT_EQ(slow[0].role, "trainer-1");
  EXPECT_EQ(slow[0].median, 105);
  EXPECT_EQ(describe(slow[0]),
            "trainer-1 on n is slow: 60 examples/s, 57 % of the others' median 105");
  EXPECT_TRUE(slow_trainers({trainer("trainer-0", 100)}).empty());
}

TEST(SlowTrainers, AmongThoseThatWaitForEachOtherTheBusyRateTells) {
  const auto slow = slow_trainers({trainer("trainer-0", 100, 1000), trainer("trainer-1", 100, 900),
                                   trainer("trainer-2", 100, 101)});
  ASSERT_EQ(slow.size(), 1U);
  EXPECT_EQ(describe(slow[0]),
            "trainer-2 on n is slow: 101 examples/s while not waiting, 11 % of "
            "the others' median 950");
}

TEST(SlowTrainers, LessDataIsNotSlow) {
  // By the wall clock trainer-0, which has two files of four, is fast where it is the last to read.
  EXPECT_TRUE(slow_trainers({trainer("trainer-0", 1500, 2000), trainer("trainer-1", 650, 2010),
                             trainer("trainer-2", 650, 1990)})
                  .empty());
  EXPECT_EQ(slow_trainers({trainer("trainer-0", 1500, 2000), trainer("trainer-1", 650)}).size(), 1U)
      << "one of them does not tell how long it waits";
}

TEST(SlowTrainers, WhileAnyHangsOrWaitsNoneIsSlow) {
  for (const Pace pace : {Pace::kStalled, Pace::kWaiting}) {
    std::vector<ProcessView> all{trainer("trainer-0", 100), trainer("trainer-1", 10)};
    all[0].pace.pace = pace;
    EXPECT_TRUE(slow_trainers(all).empty());
  }
}

TEST(SlowTrainers, AnEndedOneIsNotSlow) {
  std::vector<ProcessView> all{trainer("trainer-0", 100), trainer("trainer-1", 10)};
  all[1].status.state = remote::ProcessState::kExited;
  EXPECT_TRUE(slow_trainers(all).empty());
}

TEST(SlowTrainers, OneThatWaitsMostOfItsTimeDelaysNobody) {
  EXPECT_TRUE(
      slow_trainers({trainer("trainer-0", 100, 1000), trainer("trainer-1", 100, 300)}).empty());
}

TEST(SlowTrainers, OneThatIsSlowByBothClocksIsSlowHoweverMuchItWaits) {
  const auto slow = slow_trainers({trainer("trainer-0", 700, 1000), trainer("trainer-1", 100, 300),
                                   trainer("trainer-2", 710, 1010)});
  ASSERT_EQ(slow.size(), 1U);
  EXPECT_EQ(slow[0].role, "trainer-1");
}

TEST(JobView, RatesAreThoseSinceTheLastLook) {
  FakeCluster fake(1);
  remote::ProcessStatus status;
  status.job = "j";
  status.name = "trainer-0";
  status.state = remote::ProcessState::kRunning;
  status.usage = remote::Usage{0, 1000, 5000, 7000, 0};
  fake.node(0).processes = {status};
  ClusterSession session = fake.session();
  JobView view("j");
  view.look(fake.context, session);
  EXPECT_FALSE(view.processes()[0].received_per_second) << "nothing to compare with";
  fake.node(0).usage.unix_ms += 2000;
  fake.node(0).processes[0].usage = remote::Usage{0, 4000, 9000, 6000, 0};
  view.look(fake.context, session);
  EXPECT_EQ(view.processes()[0].received_per_second, 2000);
  EXPECT_FALSE(view.processes()[0].sent_per_second) << "a connection was closed";
  EXPECT_EQ(view.processes()[0].cores, 1.5);
  EXPECT_TRUE(view.any_running());
}

TEST(JobView, TheLastReportOfAPserverIsNotTheLastLineOfItsMetrics) {
  FakeCluster fake(1);
  remote::ProcessStatus status;
  status.job = "j";
  status.name = "pserver-0";
  status.log = "jobs/j/node_0/server.log";
  status.state = remote::ProcessState::kRunning;
  status.usage.emplace().last_output_unix_ms = fake.node(0).usage.unix_ms - 60'000;
  status.progress.emplace().unix_ms = fake.node(0).usage.unix_ms - 400;
  fake.node(0).processes = {status};
  fake.node(0).files["jobs/j/node_0/server-metrics.jsonl"] =
      R"({"kind":"pserver","port":1,"unix_ms":991000})"
      "\n";
  ClusterSession session = fake.session();
  JobView view("j");
  view.look(fake.context, session);
  EXPECT_EQ(view.processes()[0].heard_ms_ago, 400);
}

TEST(JobView, ASlowTrainerIsNamedBeforeItsFirstLogPoint) {
  FakeCluster fake(1);
  for (const double rate : {1000.0, 990.0, 300.0}) {
    remote::ProcessStatus status;
    status.job = "j";
    status.name = "trainer-" + std::to_string(fake.node(0).processes.size());
    status.state = remote::ProcessState::kRunning;
    status.usage.emplace();
    remote::Progress& progress = status.progress.emplace();
    progress.unix_ms = fake.node(0).usage.unix_ms;
    progress.examples_per_second = 250;
    progress.examples_per_busy_second = rate;
    fake.node(0).processes.push_back(status);
  }
  ClusterSession session = fake.session();
  JobView view("j");
  view.look(fake.context, session);
  auto slow = slow_trainers(view.processes());
  ASSERT_EQ(slow.size(), 1U);
  EXPECT_EQ(slow[0].role, "trainer-2");
  EXPECT_TRUE(slow[0].busy);
  // A trainer that does not know its rate yet says nothing about it.
  fake.node(0).processes[2].progress->examples_per_busy_second = 0;
  view.look(fake.context, session);
  EXPECT_TRUE(slow_trainers(view.processes()).empty());
}

TEST(JobView, TheNewestCostTellsWhetherTrainingDiverges) {
  FakeCluster fake(1);
  remote::ProcessStatus status = trainer_0(remote::ProcessState::kRunning);
  status.reports = true;
  fake.node(0).processes = {status};
  ClusterSession session = fake.session();
  std::string& metrics = fake.node(0).files["jobs/j/node_0/metrics.jsonl"];
  JobView view("j");
  const auto diverged_to = [&](const std::string& line) {
    metrics += line + "\n";
    view.look(fake.context, session);
    return view.diverged_to();
  };
  EXPECT_FALSE(diverged_to(R"({"kind":"train","cost":5,"current_cost":900,"first_cost":1})"));
  EXPECT_EQ(diverged_to(R"({"kind":"train","cost":5,"current_cost":3e31,"first_cost":1})"), 3e31);
  EXPECT_TRUE(diverged_to(R"({"kind":"test","cost":5})")) << "a test is no training";
  EXPECT_FALSE(diverged_to(R"({"kind":"pass","cost":2,"first_cost":1})"));
  EXPECT_TRUE(diverged_to(R"({"kind":"pass","cost":null,"first_cost":1})"));
}

TEST(JobView, TheCostOfAProgramOfOnesOwnDivergesOnlyWhereItWritesOne) {
  FakeCluster fake(1);
  remote::ProcessStatus status = trainer_0(remote::ProcessState::kRunning);
  fake.node(0).processes = {status};
  ClusterSession session = fake.session();
  std::string& metrics = fake.node(0).files["jobs/j/node_0/metrics.jsonl"];
  JobView view("j");
  const auto diverges = [&](const std::string& line) {
    metrics += line + "\n";
    view.look(fake.context, session);
    return view.diverged_to().has_value();
  };
  EXPECT_FALSE(diverges(R"({"kind": "train", "batch": 1})"));
  EXPECT_FALSE(diverges(R"({"kind": "train", "batch": 2, "loss": NaN})"));
  for (const char* const cost : {"NaN", "nan", "-nan", "Infinity", "-Infinity", "inf", "null"}) {
    EXPECT_FALSE(diverges(R"({"kind": "train", "batch": 3, "cost": 0.5})"));
    EXPECT_TRUE(diverges(fmt::format(R"({{"kind": "train", "batch": 4, "cost": {}}})", cost)))
        << cost;
    EXPECT_TRUE(diverges(R"({"kind": "train", "batch": 5})"))
        << "a line without a cost says nothing";
    EXPECT_FALSE(diverges(R"({"kind": "pass", "batch": 6, "cost": 0.25})"));
  }
  EXPECT_FALSE(diverges(R"({"kind": "test", "cost": NaN})")) << "a test is no training";
}

TEST(ProcessView, AProgramOfOnesOwnThatWritesNoMoreMetricsIsSilent) {
  ProcessView view = trainer("trainer-0", 100);
  view.examples_per_second = 100;
  view.heard_ms_ago = 200'000;
  EXPECT_EQ(view.state_text(), "running") << "it never wrote any";
  view.last = parse_metrics(R"({"kind":"train","cost":1})");
  EXPECT_EQ(view.state_text(), "silent for 3m20s");
  EXPECT_EQ(view.rate(), 0);
  view.heard_ms_ago = 30'000;
  EXPECT_EQ(view.state_text(), "running");
  EXPECT_EQ(view.rate(), 100);
}

TEST(JobView, ATrainerThatIsDoneHasDoneItsPassWhateverItReportedLast) {
  FakeCluster fake(1);
  remote::ProcessStatus status = trainer_0(remote::ProcessState::kExited);
  status.usage.emplace();
  status.progress.emplace();
  status.progress->pass_done = 0.84;
  fake.node(0).processes = {status};
  ClusterSession session = fake.session();
  JobView view("j");
  view.look(fake.context, session);
  ASSERT_EQ(view.processes().size(), 1U);
  EXPECT_EQ(view.processes()[0].progress->pass_done, 1.0);
}

// A trainer reports once a second, and a short job has many passes in that time.
TEST(JobView, TrainersThatAreDoneHaveEndedWithTheSamePass) {
  FakeCluster fake{1};
  for (const auto& [name, pass] : {std::pair{"trainer-0", 19U}, std::pair{"trainer-1", 15U}}) {
    remote::ProcessStatus status = trainer_0(remote::ProcessState::kExited);
    status.name = name;
    status.reports = true;
    status.usage.emplace();
    status.progress.emplace();
    status.progress->pass = pass;
    status.progress->passes = 20;
    status.progress->pass_done = 0.5;
    fake.node(0).processes.push_back(status);
  }
  ClusterSession session = fake.session();
  JobView view("j");
  view.look(fake.context, session);
  for (const ProcessView& process : view.processes()) {
    EXPECT_EQ(process.progress->pass, 19U) << process.status.name;
    EXPECT_EQ(process.progress->pass_done, 1.0) << process.status.name;
  }
  fake.node(0).processes[1].exit_code = 4;
  view.look(fake.context, session);
  EXPECT_EQ(view.processes()[1].progress->pass, 15U) << "a loss ended it there";
}

TEST(JobView, AStoppedTrainerStillTellsHowManyPassesThereWere) {
  FakeCluster fake(1);
  remote::ProcessStatus status = trainer_0(remote::ProcessState::kExited);
  fake.node(0).processes = {status};
  fake.node(0).files["jobs/j/node_0/metrics.jsonl"] =
      R"({"kind":"train","pass":16,"passes":3000,"pass_done":0.5,"cost":4,"batch":5})"
      "\n"
      R"({"kind":"pass","pass":16,"cost":3,"batch":9})"
      "\n";
  ClusterSession session = fake.session();
  JobView view("j");
  view.look(fake.context, session);
  ASSERT_TRUE(view.processes()[0].progress);
  EXPECT_EQ(view.processes()[0].progress->passes, 3000U);
}

TEST(JobView, TellsHowFarTheJobIsAndHowLongItTakes) {
  FakeCluster fake(1);
  remote::ProcessStatus status = trainer_0(remote::ProcessState::kRunning);
  status.reports = true;
  status.usage.emplace();
  status.progress.emplace();
  status.progress->unix_ms = 999'000;
  status.progress->pass = 1;
  status.progress->passes = 4;
  status.progress->pass_done = 0.5;
  status.progress->batch = 9;
  status.progress->cost = 2.5;
  status.progress->examples_per_second = 300;
  fake.node(0).processes = {status};
  fake.node(0).files["jobs/j/node_0/metrics.jsonl"] =
      R"({"kind":"train","pass":0,"passes":4,"pass_done":0.5,"cost":4,"batch":5,"unix_ms":899000})"
      "\n"
      R"({"kind":"train","pass":1,"passes":4,"pass_done":0.25,"cost":3,"batch":5,"unix_ms":979000})"
      "\n";
  ClusterSession session = fake.session();
  JobView view("j");
  view.look(fake.context, session);
  const auto progress = view.progress();
  ASSERT_TRUE(progress);
  EXPECT_EQ(progress->position(), 1.5);
  EXPECT_EQ(progress->examples_per_second, 300);
  EXPECT_EQ(view.left_ms(), 250'000);
  EXPECT_EQ(view.trail().sparkline(false), "#_");
  view.look(fake.context, session);
  EXPECT_EQ(view.left_ms(), 250'000) << "the same look again tells nothing new";
  EXPECT_TRUE(view.stalls().empty());
}

// A trainer reports once a second, and not when it ends.
TEST(JobView, AnEndedTrainerIsAtTheLastBatchOfItsMetrics) {
  FakeCluster fake(1);
  remote::ProcessStatus status = trainer_0(remote::ProcessState::kExited);
  status.reports = true;
  status.progress.emplace();
  status.progress->pass = 2;
  status.progress->batch = 388;
  fake.node(0).processes = {status};
  std::string& metrics = fake.node(0).files["jobs/j/node_0/metrics.jsonl"];
  metrics = R"({"kind":"train","pass":2,"batch":380,"cost":4})"
            "\n"
            R"({"kind":"pass","pass":2,"batch":391,"cost":3})"
            "\n";
  ClusterSession session = fake.session();
  JobView view("j");
  const auto place = [&] {
    view.look(fake.context, session);
    const auto& progress = view.processes()[0].progress;
    return progress ? std::pair(progress->pass, progress->batch) : std::pair(0U, std::uint64_t{0});
  };
  EXPECT_EQ(place(), std::pair(2U, std::uint64_t{391}));
  metrics += R"({"kind":"pass","pass":3,"batch":7,"cost":3})"
             "\n";
  EXPECT_EQ(place(), std::pair(3U, std::uint64_t{7})) << "of a later pass";
  metrics = R"({"kind":"train","pass":1,"batch":999,"cost":4})"
            "\n";
  EXPECT_EQ(place(), std::pair(2U, std::uint64_t{388})) << "an earlier pass says nothing";
  metrics = R"({"kind":"pass","pass":2,"batch":391,"cost":3})"
            "\n";
  fake.node(0).processes[0].state = remote::ProcessState::kRunning;
  EXPECT_EQ(place(), std::pair(2U, std::uint64_t{388})) << "its report is newer than its metrics";
  fake.node(0).processes[0].state = remote::ProcessState::kExited;
  fake.node(0).processes[0].reports = false;
  fake.node(0).processes[0].progress.reset();
  EXPECT_EQ(place(), std::pair(2U, std::uint64_t{391})) << "a program of the user's own";
}

}  // namespace
}  // namespace paddle::cli
