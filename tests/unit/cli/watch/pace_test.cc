#include "cli/watch/pace.h"

#include <gtest/gtest.h>

#include "cli/watch/process_state.h"

namespace paddle::cli {
namespace {

constexpr std::int64_t kNow = 1'000'000;

// A running process of ours whose last report is `silent_ms` old, on a machine whose clock has been
// set back an hour since.
ProcessOnNode process(const std::string& name, std::int64_t silent_ms,
                      const std::vector<std::string>& awaited = {}) {
  ProcessOnNode made;
  made.status.name = name;
  made.status.state = remote::ProcessState::kRunning;
  made.status.reports = true;
  made.status.asked_unix_ms = kNow;
  made.status.silent_ms = silent_ms;
  made.status.progress.emplace();
  made.status.progress->unix_ms = kNow + 3'600'000 - silent_ms;
  made.status.progress->batch = 7;
  made.status.progress->awaited = awaited;
  return made;
}

ProcessOnNode busy(ProcessOnNode made, remote::Activity activity) {
  made.status.progress->activity = activity;
  return made;
}

std::string text(const Paces& paces, const std::string& name) {
  return describe(paces.at(name));
}

TEST(Paces, ATrainerThatOthersWaitForIsTheCulprit) {
  const Paces paces = paces_of({process("pserver-0", 500, {"trainer-1"}),
                                process("trainer-0", 161'000), process("trainer-1", 162'000)});
  EXPECT_EQ(text(paces, "pserver-0"), "");
  EXPECT_EQ(text(paces, "trainer-0"), "waits for trainer-1");
  EXPECT_EQ(text(paces, "trainer-1"), "stalled 2m42s");
  EXPECT_EQ(describe_stalls(paces, {{"trainer-1", "n-1"}}),
            (std::vector<std::string>{"trainer-1 on n-1 is stalled: no progress for 2m42s",
                                      "trainer-0 waits for trainer-1 (2m41s)"}));
}

// A rank may be a step behind another because the one that both wait for told only one of them.
TEST(Paces, ATrainerThatWaitsItselfIsNotTheCulprit) {
  const Paces paces =
      paces_of({process("trainer-0", 61'000, {"trainer-1", "trainer-2"}),
                process("trainer-1", 62'000), process("trainer-2", 61'000, {"trainer-1"})});
  EXPECT_EQ(text(paces, "trainer-0"), "waits for trainer-1");
  EXPECT_EQ(text(paces, "trainer-1"), "stalled 1m02s");
  EXPECT_EQ(text(paces, "trainer-2"), "waits for trainer-1");
}

TEST(Paces, TrainersThatAllWaitAreAllShown) {
  const Paces paces = paces_of(
      {process("trainer-0", 161'000, {"trainer-1"}), process("trainer-1", 161'000, {"trainer-0"})});
  EXPECT_EQ(text(paces, "trainer-0"), "stalled 2m41s");
  EXPECT_EQ(text(paces, "trainer-1"), "stalled 2m41s");
}

TEST(Paces, TrainersOfAGroupNameThoseWhomTheyWaitFor) {
  const Paces paces =
      paces_of({process("trainer-0", 161'000, {"trainer-1"}), process("trainer-1", 162'000),
                process("trainer-2", 161'000, {"trainer-1"})});
  EXPECT_EQ(text(paces, "trainer-0"), "waits for trainer-1");
  EXPECT_EQ(text(paces, "trainer-1"), "stalled 2m42s");
  EXPECT_EQ(text(paces, "trainer-2"), "waits for trainer-1");
}

// A process whose notices and heartbeats stopped so long ago.
ProcessOnNode notice_of_age(ProcessOnNode made, std::int64_t notice_age_ms) {
  made.status.notice_age_ms = notice_age_ms;
  return made;
}

TEST(Paces, AProcessWithoutASignOfLifeIsSuspectLongBeforeItIsStalled) {
  const Paces paces = paces_of({notice_of_age(process("pserver-0", 500, {"trainer-1"}), 500),
                                notice_of_age(process("trainer-0", 4'000), 500),
                                notice_of_age(process("trainer-1", 4'200), 4'200)});
  EXPECT_EQ(text(paces, "trainer-0"), "waits for trainer-1");
  EXPECT_EQ(text(paces, "trainer-1"), "no response for 4.2s");
  EXPECT_EQ(describe_stalls(paces, {{"trainer-1", "n-1"}}),
            (std::vector<std::string>{"trainer-1 on n-1: no response for 4.2s",
                                      "trainer-0 waits for trainer-1 (4.0s)"}));
  EXPECT_EQ(
      describe_stalls(paces_of({notice_of_age(process("trainer-1", 12'000), 11'000)}), {}).front(),
      "trainer-1 on ? is stalled: no progress for 12s, no response for 11s");
}

TEST(Paces, APserverWithoutASignOfLifeIsTheCulpritAtOnce) {
  const Paces paces = paces_of({notice_of_age(process("pserver-0", 3'900), 3'900),
                                notice_of_age(process("trainer-0", 3'500), 100)});
  EXPECT_EQ(text(paces, "pserver-0"), "no response for 3.9s");
  EXPECT_EQ(text(paces, "trainer-0"), "waits for pserver-0");
}

TEST(Paces, AProcessThatSavesOrStartsGivesSignsOfLifeToo) {
  ProcessOnNode starting = notice_of_age(process("trainer-1", 0), 5'000);
  starting.status.progress.reset();
  const Paces paces =
      paces_of({notice_of_age(busy(process("trainer-0", 5'000), remote::Activity::kSaving), 5'000),
                starting});
  EXPECT_EQ(text(paces, "trainer-0"), "no response for 5.0s");
  EXPECT_EQ(text(paces, "trainer-1"), "no response for 5.0s");
}

TEST(Paces, AProcessThatLivesButIsCutOffIsNamedWithThoseItDoesNotReach) {
  ProcessOnNode server = process("pserver-0", 500, {"trainer-1"});
  server.status.progress->missed_ms = {{0, 1'200}, {1, 4'200}, {9, 60'000}};
  ProcessOnNode other = process("pserver-1", 500);
  other.status.progress->missed_ms = {{1, 4'000}};
  ProcessOnNode cut = process("trainer-1", 500);
  cut.status.progress->missed_ms = {{0, 4'100}};
  const Paces paces = paces_of({server, other, process("trainer-0", 500), cut});
  EXPECT_EQ(describe_stalls(paces, {{"trainer-1", "n-1"}, {"pserver-0", "n-0"}}),
            (std::vector<std::string>{
                "pserver-0 on n-0: no heartbeat reaches trainer-1 for 4.1s",
                "trainer-1 on n-1: no heartbeat reaches pserver-0 and pserver-1 for 4.2s"}));
}

TEST(Paces, ATrainerThatWaitsForAPeerItDoesNotHearTellsSoOnce) {
  ProcessOnNode waiting = process("trainer-1", 7'000);
  waiting.status.progress->missed_ms = {{0, 3'000}};
  EXPECT_EQ(describe_stalls(paces_of({process("pserver-0", 500), waiting}), {{"pserver-0", "n-0"}}),
            std::vector<std::string>{"pserver-0 on n-0: no heartbeat reaches trainer-1 for 7.0s"});
}

TEST(Paces, ATrainerForWhichNobodyWaitsIsStalledToo) {
  const Paces paces = paces_of(
      {process("pserver-0", 500), process("trainer-0", 900), process("trainer-1", 11'000)});
  EXPECT_EQ(text(paces, "trainer-0"), "");
  EXPECT_EQ(text(paces, "trainer-1"), "stalled 11s");
}

TEST(Paces, AStalledPserverIsTheCulpritBeforeTheTrainersThatWaitForIt) {
  const Paces paces = paces_of({process("pserver-0", 800, {"trainer-1"}),
                                process("pserver-1", 12'000, {"trainer-0"}),
                                process("trainer-0", 12'000), process("trainer-1", 13'000)});
  EXPECT_EQ(text(paces, "pserver-1"), "stalled 12s");
  EXPECT_EQ(text(paces, "trainer-0"), "waits for pserver-1");
  EXPECT_EQ(text(paces, "trainer-1"), "waits for pserver-1");
  EXPECT_EQ(describe_stalls(paces, {})[1], "trainer-0 and trainer-1 wait for pserver-1 (13s)");
}

TEST(Paces, WhoWaitsSaysSoWhenTheOtherIsCalledStalledThoughItReportedLater) {
  const Paces by_trainer = paces_of({process("pserver-0", 500, {"trainer-1"}),
                                     process("trainer-0", 9'100), process("trainer-1", 10'001)});
  EXPECT_EQ(describe_stalls(by_trainer, {}).size(), 2U);
  const Paces by_pserver = paces_of({process("pserver-0", 5'001), process("trainer-0", 4'100)});
  EXPECT_EQ(describe_stalls(by_pserver, {}).size(), 2U);
}

TEST(Paces, TestingAndSavingAreNoStalls) {
  const Paces paces = paces_of({process("pserver-0", 800, {"trainer-0"}),
                                busy(process("trainer-0", 900), remote::Activity::kTesting),
                                process("trainer-1", 40'000)});
  EXPECT_EQ(text(paces, "trainer-0"), "testing");
  EXPECT_EQ(text(paces, "trainer-1"), "waits for trainer-0");
  EXPECT_TRUE(describe_stalls(paces, {}).empty());
  EXPECT_EQ(
      text(paces_of({busy(process("trainer-0", 40'000), remote::Activity::kSaving)}), "trainer-0"),
      "saving 40s");
}

TEST(Paces, ATestThatHangsIsAStall) {
  EXPECT_EQ(text(paces_of({process("pserver-0", 800, {"trainer-0"}),
                           busy(process("trainer-0", 40'000), remote::Activity::kTesting)}),
                 "trainer-0"),
            "stalled 40s");
}

TEST(Paces, ASaveThatWaitsForAStalledPserverSaysSo) {
  EXPECT_EQ(text(paces_of({process("pserver-0", 30'000),
                           busy(process("trainer-0", 40'000), remote::Activity::kSaving)}),
                 "trainer-0"),
            "waits for pserver-0");
}

TEST(Paces, SlowBatchesAndTheFirstOfAPassAreNoStalls) {
  ProcessOnNode slow = process("trainer-0", 25'000);
  slow.status.progress->batch_ms = 9'000;
  EXPECT_EQ(text(paces_of({slow}), "trainer-0"), "");
  slow.status.silent_ms = 28'000;
  EXPECT_EQ(text(paces_of({slow}), "trainer-0"), "stalled 28s");
  ProcessOnNode reads = process("trainer-0", 50'000);
  reads.status.progress->batch = 0;
  EXPECT_EQ(text(paces_of({reads}), "trainer-0"), "");
  reads.status.silent_ms = 61'000;
  EXPECT_EQ(text(paces_of({reads}), "trainer-0"), "stalled 1m01s");
}

TEST(Paces, BeforeItsFirstBatchTheCulpritIsStalledOnceOthersHaveWaitedLong) {
  const auto paces_after = [](std::int64_t waited_ms, std::int64_t batch_ms) {
    ProcessOnNode waits = process("trainer-0", waited_ms);
    waits.status.progress->batch_ms = static_cast<std::uint64_t>(batch_ms);
    ProcessOnNode culprit = process("trainer-1", 30'000);
    culprit.status.progress->batch = 0;
    return paces_of({process("pserver-0", 500, {"trainer-1"}), waits, culprit});
  };
  EXPECT_EQ(text(paces_after(9'000, 10), "trainer-1"), "") << "it may read and shuffle";
  EXPECT_EQ(text(paces_after(11'000, 10), "trainer-1"), "stalled 30s");
  EXPECT_EQ(text(paces_after(11'000, 10), "trainer-0"), "waits for trainer-1");
  EXPECT_EQ(text(paces_after(11'000, 9'000), "trainer-1"), "") << "batches take long here";
  EXPECT_EQ(text(paces_after(28'000, 9'000), "trainer-1"), "stalled 30s");
}

TEST(Paces, AProcessThatTellsNothingIsNeverStalled) {
  ProcessOnNode own = process("trainer-0", 0);
  own.status.progress.reset();
  EXPECT_EQ(paces_of({own}).at("trainer-0").pace, Pace::kStarting);
  own.status.reports = false;
  EXPECT_EQ(paces_of({own}).at("trainer-0").pace, Pace::kUnknown);
  EXPECT_EQ(text(paces_of({own}), "trainer-0"), "");
}

TEST(Paces, AnEndedProcessHasNone) {
  ProcessOnNode ended = process("trainer-0", 60'000);
  ended.status.state = remote::ProcessState::kExited;
  EXPECT_TRUE(paces_of({ended}).empty());
}

TEST(Paces, ManyThatWaitAreCounted) {
  std::vector<ProcessOnNode> all{process("pserver-0", 500, {"trainer-0"})};
  for (int i = 0; i < 64; ++i) all.push_back(process("trainer-" + std::to_string(i), 20'000));
  const auto lines = describe_stalls(paces_of(all), {{"trainer-0", "n"}});
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(lines[1], "trainer-1, trainer-10 and 61 more wait for trainer-0 (20s)");
}

TEST(Paces, AClockThatWentBackIsNoStall) {
  EXPECT_EQ(text(paces_of({process("trainer-0", -50'000)}), "trainer-0"), "");
}

}  // namespace
}  // namespace paddle::cli
