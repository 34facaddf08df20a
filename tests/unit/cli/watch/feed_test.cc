#include "cli/watch/feed.h"

#include <cmath>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "cli/watch/process_state.h"
#include "tests/support/fake_cluster.h"

namespace paddle::cli {
namespace {

class Feed : public testing::Test {
 protected:
  Feed() {
    for (const char* const name : {"trainer-0", "trainer-1"}) {
      remote::ProcessStatus status;
      status.job = "j";
      status.name = name;
      status.log = std::string("jobs/j/node_0/train") + (name[8] == '0' ? ".log" : "-1.log");
      status.state = remote::ProcessState::kRunning;
      status.reports = true;
      status.restarts_allowed = 2;
      fake_.node(0).processes.push_back(status);
    }
  }
  remote::ProcessStatus& trainer(std::size_t number) { return fake_.node(0).processes[number]; }
  void report(double cost, std::uint32_t pass = 1, float done = 0.5) {
    for (remote::ProcessStatus& status : fake_.node(0).processes) {
      status.progress.emplace();
      status.progress->unix_ms = fake_.node(0).usage.unix_ms;
      status.progress->pass = pass;
      status.progress->passes = 4;
      status.progress->pass_done = done;
      status.progress->batch = 3;
      status.progress->cost = cost;
      status.progress->examples_per_second = 600;
    }
  }
  // The lines of a look on stderr.
  std::string look() {
    fake_.err.str("");
    fake_.clock.time += std::chrono::seconds(11);
    feed_.poll(session_.processes("j"));
    return fake_.err.str();
  }
  void pass_time(std::int64_t ms) { fake_.node(0).usage.unix_ms += ms; }

  FakeCluster fake_{1};
  ClusterSession session_ = fake_.session();
  JobSummary summary_;
  JobFeed feed_{fake_.context, session_, summary_};
};

TEST_F(Feed, SaysSomethingBeforeTheFirstReport) {
  EXPECT_EQ(look(), "starting: 2 trainers load data\n");
  EXPECT_EQ(look(), "") << "once";
}

TEST_F(Feed, ShowsOneLineForTheWholeJob) {
  report(6.1);
  EXPECT_EQ(look(), "pass 2/4  50 %  1,200/s  cost 6.1\n");
  report(6.0, 1, 0.75);
  EXPECT_EQ(look(), "pass 2/4  75 %  1,200/s  99 s left  cost 6\n");
}

TEST_F(Feed, TheTimeLeftOutlivesAKillAndIsNotTakenFromAShareThatIsNotKnown) {
  report(6, 1, 0.5F);
  look();
  report(6, 1, 0.55F);
  EXPECT_NE(look().find("  9 min left  "), std::string::npos);
  for (remote::ProcessStatus& status : fake_.node(0).processes) status.progress.reset();
  look();
  report(6, 1, 0.F);
  for (remote::ProcessStatus& status : fake_.node(0).processes) status.progress->pass_done.reset();
  EXPECT_EQ(look(), "pass 2/4  1,200/s  9 min left  cost 6\n") << "it is back, before a batch";
  report(6, 1, 0.52F);
  EXPECT_EQ(look(), "pass 2/4  52 %  1,200/s  9 min left  cost 6\n");
  report(6, 1, 0.57F);
  EXPECT_EQ(look(), "pass 2/4  57 %  1,200/s  9 min left  cost 6\n");
}

TEST_F(Feed, AProgramOfOnesOwnThatDivergesIsWarnedOf) {
  for (remote::ProcessStatus& status : fake_.node(0).processes) status.reports = false;
  fake_.node(0).files["jobs/j/node_0/metrics.jsonl"] =
      R"({"kind":"train","pass":0,"batch":1,"cost":0.5,"unix_ms":999000})"
      "\n";
  EXPECT_EQ(look().find("diverges"), std::string::npos);
  fake_.node(0).files["jobs/j/node_0/metrics.jsonl"] +=
      R"({"kind":"train","pass":0,"batch":2,"cost":NaN,"unix_ms":999500})"
      "\n";
  EXPECT_NE(look().find("warning: training diverges: the cost is nan"), std::string::npos);
}

TEST_F(Feed, AProgramOfOnesOwnThatWritesNoCostDoesNotDiverge) {
  for (remote::ProcessStatus& status : fake_.node(0).processes) status.reports = false;
  std::string& metrics = fake_.node(0).files["jobs/j/node_0/metrics.jsonl"];
  std::int64_t unix_ms = 999'000;
  for (const char* const cost : {R"("loss":0.5)", R"("cost":"0.5")", R"("cost":[0.5])"}) {
    metrics += fmt::format(R"({{"kind":"train","pass":0,"passes":2,"batch":3,{},"unix_ms":{}}})",
                           cost, ++unix_ms) +
               "\n";
    EXPECT_EQ(look(), "pass 1/2\n") << cost;
  }
  // Neither does one whose lines of other kinds have a cost that is not finite.
  for (const char* const kind : {"save", "test", "mine"}) {
    metrics += fmt::format(R"({{"kind":"{}","pass":0,"batch":3,"cost":null,"unix_ms":{}}})", kind,
                           ++unix_ms) +
               "\n";
    EXPECT_EQ(look().find("diverges"), std::string::npos) << kind;
  }
  metrics += R"({"kind":"train","pass":0,"passes":2,"batch":4,"cost":null,"unix_ms":999500})"
             "\n";
  EXPECT_NE(look().find("warning: training diverges: the cost is nan"), std::string::npos);
}

TEST_F(Feed, AProgramOfOnesOwnIsShownWithoutTimesAndWithSeconds) {
  fake_.node(0).usage.unix_ms = 1'700'000'100'000;
  std::string& metrics = fake_.node(0).files["jobs/j/node_0/metrics.jsonl"];
  for (remote::ProcessStatus& status : fake_.node(0).processes) {
    status.reports = false;
    status.started_unix_ms = 1'700'000'000'000;
  }
  int batch = 0;
  for (const char* const time : {"", R"(,"unix_ms":null)", R"(,"unix_ms":1700000050.25)"}) {
    ++batch;
    metrics += fmt::format(R"({{"kind":"train","pass":0,"passes":2,"batch":{0},"cost":{0}{1}}})",
                           batch, time) +
               "\n";
    metrics += fmt::format(R"({{"kind":"warning","message":"no {}"{}}})", batch, time) + "\n";
    const std::string shown = look();
    EXPECT_NE(shown.find(fmt::format("warning: no {}\n", batch)), std::string::npos) << shown;
    EXPECT_NE(shown.find(fmt::format("  cost {}", batch)), std::string::npos) << shown;
  }
}

TEST_F(Feed, AProgramOfOnesOwnIsShownByItsMetrics) {
  for (remote::ProcessStatus& status : fake_.node(0).processes) status.reports = false;
  EXPECT_EQ(look(), "2 trainers running, without metrics so far\n");
  for (const char* const path : {"jobs/j/node_0/metrics.jsonl", "jobs/j/node_0/metrics-1.jsonl"}) {
    fake_.node(0).files[path] =
        R"({"kind":"train","pass":0,"passes":2,"pass_done":0.25,"batch":1,"cost":3,)"
        R"("examples_per_second":10,"unix_ms":999000})"
        "\n";
  }
  EXPECT_EQ(look(), "pass 1/2  25 %  20/s  cost 3\n");
  pass_time(100'000);
  EXPECT_EQ(look(), "pass 1/2  25 %  cost 3\n") << "an old rate is none";
  for (const char* const path : {"jobs/j/node_0/metrics.jsonl", "jobs/j/node_0/metrics-1.jsonl"}) {
    fake_.node(0).files[path] += R"({"kind":"pass","pass":1,"batch":9,"cost":2,"unix_ms":1000000})"
                                 "\n";
  }
  pass_time(100'000);
  EXPECT_EQ(look(), "pass 2/2  100 %  cost 2\n") << "the program ends";
}

TEST_F(Feed, LinesOfARunBeforeAreNoProgressOfThisOne) {
  for (remote::ProcessStatus& status : fake_.node(0).processes) {
    status.reports = false;
    status.started_unix_ms = 999'500;
  }
  const auto add = [&](const char* const line) {
    fake_.node(0).files["jobs/j/node_0/metrics.jsonl"] += std::string(line) + "\n";
  };
  add(R"({"kind":"train","pass":4,"passes":60,"pass_done":0.41,"batch":1,"cost":3,"unix_ms":999000})");
  EXPECT_EQ(look(), "2 trainers running, without metrics so far\n");
  add(R"({"kind":"train","pass":4,"passes":6,"pass_done":0.5,"batch":9,"cost":2,"unix_ms":999600})");
  EXPECT_EQ(look(), "pass 5/6  50 %  cost 2\n");
}

TEST_F(Feed, SaysWhyAJobEndsBeforeItsLastPass) {
  const auto write = [&](std::uint64_t pass, std::int64_t unix_ms) {
    fake_.node(0).files["jobs/j/node_0/metrics.jsonl"] += fmt::format(
        R"({{"kind":"stop","pass":{},"batch":3,"samples":9,"cost":1,"why":"auc is\nhigh",)"
        R"("unix_ms":{}}})"
        "\n",
        pass, unix_ms);
  };
  report(1);
  trainer(0).started_unix_ms = 500'000;
  write(1, 499'000);  // by a run before this one
  look();
  EXPECT_EQ(fake_.out.str(), "");
  write(2, 501'000);
  look();
  EXPECT_EQ(fake_.out.str(), "training ends with pass 3 (pass-00002): auc is\\x0ahigh\n");
}

TEST_F(Feed, SaysOnceWhatTrainer0WarnsOf) {
  const auto write = [&](const std::string& message, std::int64_t unix_ms) {
    fake_.node(0).files["jobs/j/node_0/metrics.jsonl"] +=
        fmt::format(R"({{"kind":"warning","message":"{}","unix_ms":{}}})", message, unix_ms) + "\n";
  };
  report(1);
  trainer(0).started_unix_ms = 500'000;
  write("of a run before", 499'000);
  EXPECT_EQ(look().find("warning"), std::string::npos);
  write("the numbers of income\\n are large", 501'000);
  EXPECT_NE(look().find("warning: the numbers of income\\x0a are large\n"), std::string::npos);
  write("empty fields were read as 0", 502'000);
  const std::string told = look();
  EXPECT_NE(told.find("warning: empty fields were read as 0\n"), std::string::npos) << told;
  EXPECT_EQ(told.find("income"), std::string::npos) << told;
}

// The reader gives such a line in pieces, of which none is a line of metrics.
TEST_F(Feed, WarnsOnceOfALineOfMetricsThatIsTooLong) {
  for (remote::ProcessStatus& status : fake_.node(0).processes) status.reports = false;
  const std::string open = R"({"kind":"train","pass":0,"passes":2,"batch":1,"text":")";
  const std::string good = R"({"kind":"train","pass":0,"passes":2,"batch":2,"cost":0.5})";
  for (const char* const name : {"metrics.jsonl", "metrics-1.jsonl"}) {
    std::string& metrics = fake_.node(0).files[std::string("jobs/j/node_0/") + name];
    const std::string process = name[7] == '.' ? "trainer-0" : "trainer-1";
    metrics = open + std::string(60'000, 'x');
    EXPECT_EQ(look().find("warning"), std::string::npos) << "it may still end";
    metrics += std::string(190'000, 'x');
    const std::string told = look();
    EXPECT_NE(told.find("warning: " + process +
                        " on n-0 has written a line of metrics with more than 64 KiB, which is "
                        "left out; write shorter lines\n"),
              std::string::npos)
        << told;
    metrics += std::string(100'000, 'x');
    EXPECT_EQ(look().find("warning"), std::string::npos) << "the rest of the same line";
    metrics += "\"}\n" + good + "\n";
    EXPECT_NE(look().find("  cost 0.5"), std::string::npos) << "later lines count";
    metrics += open + std::string(400'000, 'x') + "\"}\n" + good + "\n";
    EXPECT_EQ(look().find("warning"), std::string::npos) << "once";
  }
}

// The log of a program may have text that is no JSON; only a long line is worth a warning.
TEST_F(Feed, OtherTextAmongTheMetricsIsPassedOver) {
  for (remote::ProcessStatus& status : fake_.node(0).processes) status.reports = false;
  fake_.node(0).files["jobs/j/node_0/metrics.jsonl"] =
      "no json\n{}\n" + std::string(60'000, 'x') + "\n" +
      R"({"kind":"train","pass":0,"passes":2,"batch":2,"cost":0.5})" + "\n";
  const std::string told = look();
  EXPECT_EQ(told.find("warning"), std::string::npos) << told;
  EXPECT_NE(told.find("  cost 0.5"), std::string::npos) << told;
}

TEST_F(Feed, TellsOfAProcessThatGivesNoSignOfLife) {
  report(1);
  trainer(0).notice_age_ms = 0;
  look();
  pass_time(3'500);
  trainer(0).notice_age_ms = 3'500;
  trainer(1).progress->unix_ms = fake_.node(0).usage.unix_ms;
  const std::string told = look();
  EXPECT_NE(told.find("trainer-0 on n-0: no response for 3.5s\n"), std::string::npos) << told;
  EXPECT_NE(told.find("600/s  trainer-0 no response for 3.5s  cost 1\n"), std::string::npos)
      << told;
  trainer(0).notice_age_ms = 0;
  EXPECT_NE(look().find("trainer-0 responds again\n"), std::string::npos);
}

TEST_F(Feed, TellsOfSnapshotsThatCouldNotBeSavedOnceUntilOneIs) {
  const auto fail = [&](const char* pass) {
    trainer(0).progress->save_failure = std::string("saving ") + pass + ": No space left on device";
  };
  report(1);
  look();
  fail("pass-00003");
  const std::string told = look();
  EXPECT_NE(told.find("warning: trainer-0 on n-0 could not save its latest snapshot (saving "
                      "pass-00003: No space left on device); training continues"),
            std::string::npos)
      << told;
  EXPECT_EQ(look().find("pass-00003"), std::string::npos) << "once";
  fail("pass-00004");
  EXPECT_NE(look().find("saving pass-00004"), std::string::npos) << "another one is lost";
  EXPECT_EQ(look().find("saving pass-00004"), std::string::npos) << "once";
  trainer(0).progress->save_failure = "";
  EXPECT_EQ(look().find("snapshot"), std::string::npos);
  fail("pass-00006");
  EXPECT_NE(look().find("saving pass-00006"), std::string::npos) << "one was saved in between";
}

TEST_F(Feed, TheProgressLineHasTheLastPassThatIsSavedWhileTheLatestIsNot) {
  report(6.1);
  EXPECT_EQ(look(), "pass 2/4  50 %  1,200/s  cost 6.1\n");
  trainer(0).progress->save_failure = "saving pass-00001: No space left on device";
  EXPECT_NE(look().find("pass 2/4  50 %  1,200/s  no pass saved  cost 6.1\n"), std::string::npos);
  fake_.node(0).files["jobs/j/node_0/metrics.jsonl"] =
      R"({"kind":"save","pass":2,"batch":3,"cost":6.1,"path":"jobs/j/output/pass-00002"})"
      "\n";
  EXPECT_EQ(look(), "pass 2/4  50 %  1,200/s  last saved: pass 3  cost 6.1\n");
  trainer(0).progress->save_failure = "";
  EXPECT_EQ(look(), "pass 2/4  50 %  1,200/s  cost 6.1\n");
}

TEST_F(Feed, TellsOnceThatADamagedSnapshotWasPassedOver) {
  report(1);
  look();
  trainer(0).progress->restored_from = "pass-00001, since pass-00002 is damaged: w: other bytes";
  const std::string told = look();
  EXPECT_NE(told.find("warning: trainer-0 on n-0 continued from pass-00001, since pass-00002 is "
                      "damaged: w: other bytes\n"),
            std::string::npos)
      << told;
  EXPECT_EQ(look().find("pass-00002"), std::string::npos) << "once";
}

TEST_F(Feed, TellsAStallWhenItBeginsAndEnds) {
  report(1);
  look();
  pass_time(12'000);
  trainer(1).progress->unix_ms = fake_.node(0).usage.unix_ms;
  const std::string told = look();
  EXPECT_NE(told.find("trainer-0 on n-0 is stalled: no progress for 12s\n"), std::string::npos)
      << told;
  EXPECT_NE(told.find("pass 2/4  50 %  600/s  trainer-0 stalled 12s  cost 1\n"), std::string::npos)
      << told;
  EXPECT_EQ(look().find("no progress"), std::string::npos) << "once";
  report(1);
  EXPECT_NE(look().find("trainer-0 is no longer stalled\n"), std::string::npos);
}

TEST_F(Feed, AClockThatIsSetHidesNoStallAndMakesNone) {
  for (const std::int64_t set_ms : {-3'600'000, 3'600'000}) {
    report(1);
    trainer(0).notice_age_ms = trainer(1).notice_age_ms = 0;
    look();
    fake_.node(0).clock_set_ms += set_ms;
    pass_time(900);
    EXPECT_EQ(look().find("trainer-"), std::string::npos) << "both report";
    pass_time(12'000);
    trainer(0).notice_age_ms = 12'000;
    trainer(1).progress->unix_ms = fake_.node(0).usage.unix_ms;
    const std::string told = look();
    EXPECT_NE(told.find("trainer-0 on n-0 is stalled: no progress for 12s, no response for "),
              std::string::npos)
        << told;
  }
}

remote::Restart killed(std::uint32_t incarnation, std::int64_t ended_unix_ms,
                       std::uint32_t failures) {
  return {0, 9, ended_unix_ms, failures, "", 0, incarnation};
}

TEST_F(Feed, TellsARestartThatItSees) {
  trainer(1).restarts = {killed(1, 500, 1)};
  look();
  trainer(1).restarts.push_back(killed(2, 900, 2));
  trainer(0).restarts = {{4, 0, 950, 0, "", 0, 1}};
  EXPECT_EQ(look(), "trainer-1 on n-0 was killed by signal 9 (Killed); restarted (2 of 2)\n");
  EXPECT_EQ(look(), "");
  trainer(0).restarts.push_back({3, 0, 990, 1, "", 0, 2});
  EXPECT_EQ(look(), "trainer-0 on n-0 exited with code 3; restarted (1 of 2)\n");
}

TEST_F(Feed, TellsARestartByHandAsOne) {
  look();
  remote::Restart by_hand = killed(1, 900, 0);
  by_hand.ordered = true;
  trainer(1).restarts = {by_hand};
  EXPECT_EQ(look(), "trainer-1 on n-0 was started again by paddlectl restart\n");
  EXPECT_EQ(look(), "");
  trainer(1).restarts.push_back(killed(2, 950, 1));
  EXPECT_EQ(look(), "trainer-1 on n-0 was killed by signal 9 (Killed); restarted (1 of 2)\n")
      << "a restart by hand is none of those allowed";
}

TEST_F(Feed, AClockThatIsSetHidesNoRestart) {
  trainer(1).restarts = {killed(1, 3'600'500, 1)};
  look();
  trainer(1).restarts.push_back(killed(2, 900, 2));
  EXPECT_EQ(look(), "trainer-1 on n-0 was killed by signal 9 (Killed); restarted (2 of 2)\n")
      << "the clock was set back an hour";
  EXPECT_EQ(look(), "");
  trainer(1).restarts.push_back(killed(4, 3'601'000, 1));
  EXPECT_EQ(look(), "trainer-1 on n-0 was killed by signal 9 (Killed); restarted (1 of 2)\n");
  EXPECT_EQ(look(), "");
}

TEST_F(Feed, WarnsOnceOfACostThatGrowsAThousandfold) {
  report(2);
  look();
  pass_time(1000);
  report(1900);
  EXPECT_EQ(look().find("diverges"), std::string::npos);
  pass_time(1000);
  report(6.08492362e29);
  EXPECT_NE(look().find("warning: training diverges: the cost is 6.08492e+29; lower"),
            std::string::npos);
  pass_time(1000);
  report(7e29);
  EXPECT_EQ(look().find("diverges"), std::string::npos);
  EXPECT_EQ(summary_.diverged_to, 7e29);
}

TEST_F(Feed, WarnsOfACostThatDivergedBeforeTheFirstReport) {
  report(1.98412e30);
  EXPECT_EQ(look().find("diverges"), std::string::npos) << "it may cost that much from the start";
  fake_.node(0).files["jobs/j/node_0/metrics.jsonl"] =
      R"({"kind":"train","pass":0,"cost":1.98412e30,"batch":100,"first_cost":0.693147})"
      "\n"
      R"({"kind":"train","pass":1,"cost":2e30,"batch":100,"first_cost":1e30})"
      "\n";
  EXPECT_NE(look().find("warning: training diverges: the cost is 1.98412e+30; lower"),
            std::string::npos);
  EXPECT_EQ(summary_.diverged_to, 2e30);
  EXPECT_EQ(summary_.first_cost, 0.693147) << "a resumed run begins anew";
}

TEST_F(Feed, WarnsOfTheCostOfTheLatestBatchesAsTheEngineDoes) {
  fake_.node(0).files["jobs/j/node_0/metrics.jsonl"] =
      R"({"kind":"train","pass":0,"cost":500,"current_cost":1500,"batch":9,"first_cost":1})"
      "\n";
  EXPECT_NE(look().find("diverges: the cost is 1500;"), std::string::npos);
}

TEST_F(Feed, WarnsOfACostThatIsNoNumber) {
  report(std::nan(""));
  EXPECT_NE(look().find("warning: training diverges: the cost is nan"), std::string::npos);
}

TEST_F(Feed, TestsGoToStdoutAndIntoTheSummary) {
  report(1);
  fake_.node(0).files["jobs/j/node_0/metrics.jsonl"] =
      R"({"kind":"train","pass":1,"passes":4,"cost":2,"batch":1})"
      "\n"
      R"({"kind":"test","pass":1,"samples":10,"cost":0.5,"auc":0.75})"
      "\n";
  look();
  EXPECT_EQ(fake_.out.str(),
            "pass 2 of 4 (pass-00001): held-out cost 0.5, auc 0.75 (10 samples)\n");
  ASSERT_TRUE(summary_.last_test);
  EXPECT_EQ(summary_.last_test->evaluators().front().second, 0.75);
  EXPECT_EQ(summary_.passes, 4U);
}

// Without held-out data the training cost is all that shows progress.
TEST_F(Feed, WithoutTestsTheTrainingCostOfEachPassIsShown) {
  report(1);
  std::string& metrics = fake_.node(0).files["jobs/j/node_0/metrics.jsonl"];
  metrics =
      R"({"kind":"pass","pass":0,"passes":4,"samples":4,"cost":9,"auc":0.1,"total_samples":10,)"
      R"("total_cost":0.5,"total_auc":0.75})"
      "\n";
  look();
  EXPECT_EQ(fake_.out.str(), "") << "a test may follow";
  metrics += R"({"kind":"pass","pass":1,"passes":4,"samples":4,"cost":0.25})"
             "\n";
  look();
  EXPECT_EQ(fake_.out.str(),
            "pass 1 of 4 (pass-00000): training cost 0.5, auc 0.75 (10 samples)\n");
  trainer(0).state = remote::ProcessState::kExited;
  look();
  look();
  EXPECT_EQ(fake_.out.str(),
            "pass 1 of 4 (pass-00000): training cost 0.5, auc 0.75 (10 samples)\n"
            "pass 2 of 4 (pass-00001): training cost 0.25 (4 samples)\n")
      << "once";
}

TEST_F(Feed, ATestTakesThePlaceOfTheTrainingCost) {
  report(1);
  std::string& metrics = fake_.node(0).files["jobs/j/node_0/metrics.jsonl"];
  metrics = R"({"kind":"pass","pass":0,"samples":4,"cost":9})"
            "\n";
  look();
  metrics += R"({"kind":"test","pass":0,"samples":5,"cost":0.5})"
             "\n";
  look();
  trainer(0).state = remote::ProcessState::kExited;
  look();
  EXPECT_EQ(fake_.out.str(), "pass 1 of 4 (pass-00000): held-out cost 0.5 (5 samples)\n");
}

TEST_F(Feed, AnotherOneOfTheSameTerminalShowsOnlyWhatIsNew) {
  std::string& metrics = fake_.node(0).files["jobs/j/node_0/metrics.jsonl"];
  metrics = R"({"kind":"test","pass":0,"samples":5,"cost":0.5})"
            "\n";
  look();
  metrics += R"({"kind":"test","pass":1,"samples":5,"cost":0.25})"
             "\n";
  JobFeed next(fake_.context, session_, summary_);
  next.poll(session_.processes("j"));
  EXPECT_EQ(fake_.out.str(),
            "pass 1 (pass-00000): held-out cost 0.5 (5 samples)\npass 2 (pass-00001): held-out "
            "cost 0.25 (5 samples)\n");
}

TEST_F(Feed, ANarrowTerminalLosesTheLastWords) {
  ConsoleOptions narrow;
  narrow.live = true;
  narrow.live_columns = 24;
  Console console(fake_.out, fake_.err, narrow);
  Context context{console,
                  fake_.context.clock,
                  fake_.context.connect,
                  fake_.context.pause,
                  fake_.context.interrupted,
                  fake_.context.unix_seconds,
                  "",
                  ""};
  JobFeed feed(context, session_, summary_);
  report(6.1);
  feed.poll(session_.processes("j"));
  EXPECT_NE(fake_.err.str().find("pass 2/4  50 %  1,200/s\x1b"), std::string::npos)
      << fake_.err.str();
}

}  // namespace
}  // namespace paddle::cli
