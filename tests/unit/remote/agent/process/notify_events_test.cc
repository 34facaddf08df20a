// The events that a supervisor reports, and their text.
#include "remote/agent/process/notify_events.h"

#include <csignal>

#include <gtest/gtest.h>

#include "base/result.h"
#include "base/text_file.h"

namespace paddle::agent {
namespace {

using namespace std::chrono_literals;

constexpr TimePoint kBegin{1000s};

wire::agent::ProcessSpec spec_of(const std::string& name, bool is_engine = true) {
  wire::agent::ProcessSpec spec;
  spec.set_job("j");
  spec.set_name(name);
  if (is_engine) spec.set_program("bin/paddle");
  spec.mutable_notify()->set_speaks_for_job(name == "trainer-0");
  spec.mutable_notify()->set_speaks_for_lost(name == "trainer-0" || name == "pserver-0");
  return spec;
}
RunEnd exit_with(int code, const std::string& message = "") {
  RunEnd end{.wait_status = code << 8};
  if (!message.empty()) end.failure.emplace().set_message(message);
  return end;
}

TEST(NotifyEvents, OnlyTrainer0ReportsTheEndOfAJob) {
  EXPECT_EQ(event_of_end(spec_of("trainer-0"), exit_with(0)), NotifyEvent::kDone);
  EXPECT_EQ(event_of_end(spec_of("trainer-0"), exit_with(75)), NotifyEvent::kDone);
  EXPECT_EQ(event_of_end(spec_of("trainer-1"), exit_with(0)), std::nullopt);
  EXPECT_EQ(event_of_end(spec_of("pserver-0"), exit_with(0)), std::nullopt);
}

TEST(NotifyEvents, AProcessThatFailedOfItselfReportsThat) {
  for (const char* name : {"trainer-0", "trainer-3", "pserver-1"}) {
    EXPECT_EQ(event_of_end(spec_of(name), RunEnd{.wait_status = SIGKILL}), NotifyEvent::kFailed);
    EXPECT_EQ(event_of_end(spec_of(name), exit_with(6, "data/x:3: no label")),
              NotifyEvent::kFailed);
    EXPECT_EQ(event_of_end(spec_of(name, false), exit_with(4)), NotifyEvent::kFailed)
        << "the codes of a program of the user's own may mean anything";
  }
}

TEST(NotifyEvents, AProcessThatEndsBecauseAnotherFailedReportsNothing) {
  for (const char* name : {"trainer-0", "pserver-0"}) {
    for (const char* message :
         {"pserver dense port 0 (10.0.0.1:7164): closed by peer",
          "lost trainer-1: Connection reset by peer; ...",
          "pserver dense port 1 (10.0.0.1:7165): connect: Connection refused",
          "pserver dense port 0: trainer 2: write w: No space left on device"})
      EXPECT_EQ(event_of_end(spec_of(name), exit_with(4, message)), std::nullopt) << message;
  }
  EXPECT_EQ(event_of_end(spec_of("pserver-0"), exit_with(6, "trainer 2: data/x:3: no label")),
            std::nullopt);
  EXPECT_EQ(event_of_end(spec_of("trainer-2"), exit_with(6, "trainer 2: data/x:3: no label")),
            NotifyEvent::kFailed);
}

TEST(NotifyEvents, AnEndThatAPersonAskedForIsNoFailure) {
  RunEnd end{.wait_status = SIGKILL};
  end.is_ordered = true;
  EXPECT_EQ(event_of_end(spec_of("trainer-0"), end), std::nullopt);
  end.wait_status = 75 << 8;
  EXPECT_EQ(event_of_end(spec_of("trainer-0"), end), std::nullopt);
}

// The supervisor of the process that failed may be late: paddlectl stops the rest of the job
// before.
TEST(NotifyEvents, AStopOfTheRestHidesNoFailure) {
  const auto rest = [](RunEnd end) {
    end.is_stopped_as_rest = true;
    return end;
  };
  const auto spec = spec_of("trainer-1");
  for (const int status : {SIGTERM, SIGKILL, 0, 75 << 8, 130 << 8}) {
    EXPECT_EQ(event_of_end(spec, rest({.wait_status = status})), std::nullopt) << status;
    EXPECT_EQ(event_of_end(spec_of("trainer-0"), rest({.wait_status = status})), std::nullopt);
  }
  EXPECT_EQ(event_of_end(spec, rest(exit_with(4, "closed by peer"))), std::nullopt);
  EXPECT_EQ(event_of_end(spec_of("trainer-1", false), rest(exit_with(1))), std::nullopt)
      << "its answer to SIGTERM";
  EXPECT_EQ(event_of_end(spec, rest(exit_with(6, "data/x:3: no label"))), NotifyEvent::kFailed);
  EXPECT_EQ(event_of_end(spec, rest({.wait_status = SIGSEGV})), NotifyEvent::kFailed);
  EXPECT_EQ(event_of_end(spec, rest({.wait_status = SIGKILL, .hang = "no response for 60 s"})),
            NotifyEvent::kFailed);
  EXPECT_EQ(event_of_end(spec, rest({.wait_status = SIGKILL, .has_ended_before_stop = true})),
            NotifyEvent::kFailed);
}

TEST(NotifyEvents, AnotherJobOnThePortOfAPeerIsAConsequence) {
  EXPECT_EQ(
      event_of_end(spec_of("trainer-0"),
                   exit_with(7, "pserver dense port 0 (h:1): refused: it serves another job")),
      std::nullopt);
}

// A node that is gone cannot report its loss.
TEST(NotifyEvents, ALostNodeIsReportedByTrainer0OrByTheWitness) {
  const RunEnd lost = exit_with(4, "lost trainer-12: its machine has not answered for 10.0 s");
  EXPECT_EQ(event_of_end(spec_of("trainer-0"), lost), NotifyEvent::kFailed);
  wire::agent::ProcessSpec witness = spec_of("trainer-1");
  EXPECT_EQ(event_of_end(witness, lost), std::nullopt);
  witness.mutable_notify()->add_witness_of("trainer-1");
  EXPECT_EQ(event_of_end(witness, lost), std::nullopt) << "trainer-12 is not trainer-1";
  witness.mutable_notify()->add_witness_of("trainer-12");
  EXPECT_EQ(event_of_end(witness, lost), NotifyEvent::kFailed);
}

// A pserver drops a trainer that was killed, and one whose node is gone, with the same words.
TEST(NotifyEvents, APserverReportsATrainerWhoseHeartbeatsHadStopped) {
  RunEnd lost = exit_with(4, "trainer 12 lost at step 99");
  EXPECT_EQ(event_of_end(spec_of("pserver-0"), lost), std::nullopt) << "it was killed";
  lost.silent_peers = {"trainer 1"};
  EXPECT_EQ(event_of_end(spec_of("pserver-0"), lost), std::nullopt);
  lost.silent_peers = {"trainer 1", "trainer 12"};
  EXPECT_EQ(event_of_end(spec_of("pserver-0"), lost), NotifyEvent::kFailed);
  EXPECT_EQ(event_of_end(spec_of("pserver-1"), lost), std::nullopt);
  EXPECT_EQ(event_of_end(spec_of("trainer-0"),
                         exit_with(4, "pserver dense port 0 (h:1): trainer 12 lost at step 99")),
            std::nullopt);
}

TEST(NotifyEvents, ACauseSaysWhatIsKnown) {
  EXPECT_EQ(cause_of(RunEnd{.wait_status = SIGKILL}), "killed by signal 9 (Killed)");
  EXPECT_EQ(cause_of(exit_with(6, "no label")), "exited with code 6: no label");
  EXPECT_EQ(cause_of({.wait_status = SIGKILL, .hang = "no response for 60 s"}),
            "hung (no response for 60 s) and was killed");
  EXPECT_EQ(cause_of({.wait_status = SIGKILL, .out_of_memory_bytes = 3'000'000}),
            "killed by the kernel: out of memory (it had 3 MB)");
  EXPECT_NE(cause_of({.wait_status = SIGTERM, .is_shut_down = true}).find("shutting down"),
            std::string::npos);
}

wire::Notice notice(std::uint64_t batch, wire::Activity activity = wire::ACTIVITY_TRAINING) {
  wire::Notice notice;
  notice.mutable_progress()->set_batch(batch);
  notice.mutable_progress()->set_activity(activity);
  return notice;
}

TEST(StallWatch, AStallIsReportedOnceAndAgainAfterProgress) {
  StallWatch watch(10s);
  watch.restart(kBegin);
  watch.on_notice(kBegin, notice(7));
  wire::Notice waits = notice(7);
  waits.mutable_progress()->add_awaited_trainers(1);
  watch.on_notice(kBegin + 9s, waits);
  EXPECT_EQ(watch.look(kBegin + 9s), std::nullopt);
  watch.on_notice(kBegin + 10s, waits);
  EXPECT_EQ(watch.look(kBegin + 10s), "no progress for 10 s; it waits for trainer-1");
  watch.on_notice(kBegin + 30s, waits);
  EXPECT_EQ(watch.look(kBegin + 30s), std::nullopt);
  watch.on_notice(kBegin + 31s, notice(8));
  EXPECT_EQ(watch.look(kBegin + 31s), std::nullopt);
  watch.on_notice(kBegin + 41s, notice(8));
  EXPECT_EQ(watch.look(kBegin + 41s), "no progress for 10 s");
}

TEST(StallWatch, AProcessThatSendsNothingIsStalledWhateverItDid) {
  StallWatch watch(10s);
  watch.restart(kBegin);
  EXPECT_EQ(watch.look(kBegin + 9s), std::nullopt);
  EXPECT_EQ(watch.look(kBegin + 10s), "no response for 10 s");
  watch.restart(kBegin);
  watch.on_notice(kBegin, notice(7, wire::ACTIVITY_SAVING));
  EXPECT_EQ(watch.look(kBegin + 11s), "no response for 11 s");
}

TEST(StallWatch, LongWorkIsNoStall) {
  StallWatch watch(10s);
  for (const wire::Notice& long_work :
       {notice(7, wire::ACTIVITY_TESTING), notice(7, wire::ACTIVITY_SAVING), notice(0)}) {
    watch.restart(kBegin);
    watch.on_notice(kBegin, long_work);
    watch.on_notice(kBegin + 60s, long_work);
    EXPECT_EQ(watch.look(kBegin + 60s), std::nullopt);
  }
  wire::Notice slow = notice(7);
  slow.mutable_progress()->set_batch_ms(20'000);
  watch.restart(kBegin);
  watch.on_notice(kBegin, slow);
  watch.on_notice(kBegin + 59s, slow);
  EXPECT_EQ(watch.look(kBegin + 59s), std::nullopt) << "three batches take 60 s";
  watch.on_notice(kBegin + 60s, slow);
  EXPECT_NE(watch.look(kBegin + 60s), std::nullopt);
}

// A pass of which no batch is reported yet: trainer 0 may read for long, or wait for others.
TEST(StallWatch, AWaitForOthersIsNoLongReading) {
  StallWatch watch(10s);
  wire::Notice reads = notice(0);
  reads.mutable_pulse()->set_is_stepping(true);
  watch.restart(kBegin);
  for (int second = 0; second <= 60; ++second) watch.on_notice(kBegin + 1s * second, reads);
  EXPECT_EQ(watch.look(kBegin + 60s), std::nullopt);
  wire::Notice waits = notice(0);
  waits.mutable_pulse()->set_steps(1);
  for (int second = 61; second <= 71; ++second) watch.on_notice(kBegin + 1s * second, waits);
  EXPECT_EQ(watch.look(kBegin + 70s), std::nullopt);
  EXPECT_EQ(watch.look(kBegin + 71s), "no progress for 71 s");
}

TEST(StallWatch, ItIsOffAndDiscountsItsOwnPauses) {
  StallWatch off{Duration::zero()};
  off.restart(kBegin);
  EXPECT_EQ(off.look(kBegin + 1h), std::nullopt);
  StallWatch watch(10s);
  watch.restart(kBegin);
  watch.discount(kBegin + 1h);
  EXPECT_EQ(watch.look(kBegin + 1h + 9s), std::nullopt);
}

JsonObject numbered(int number) {
  JsonObject fields;
  fields.add("number", number);
  return fields;
}

TEST(NotifyQueue, FrequentEventsWaitAMinuteAndTheLatestCounts) {
  NotifyQueue queue;
  queue.add(kBegin, NotifyEvent::kBest, numbered(1));
  EXPECT_EQ(queue.take(kBegin)->text, R"({"number":1,"left_out":0})");
  for (int number = 2; number < 1000; ++number)
    queue.add(kBegin + 1s, NotifyEvent::kBest, numbered(number));
  EXPECT_EQ(queue.take(kBegin + 59s), std::nullopt);
  EXPECT_EQ(queue.due_at(), kBegin + 60s);
  EXPECT_EQ(queue.take(kBegin + 60s)->text, R"({"number":999,"left_out":997})");
  EXPECT_TRUE(queue.is_empty());
}

TEST(NotifyQueue, TheEndOfAJobWaitsForNothing) {
  NotifyQueue queue;
  queue.add(kBegin, NotifyEvent::kRestarted, numbered(1));
  ASSERT_TRUE(queue.take(kBegin));
  queue.add(kBegin, NotifyEvent::kRestarted, numbered(2));
  queue.add(kBegin, NotifyEvent::kFailed, numbered(3));
  EXPECT_EQ(queue.take(kBegin)->event, NotifyEvent::kFailed);
  EXPECT_EQ(queue.take(kBegin), std::nullopt);
  queue.hurry();
  EXPECT_EQ(queue.take(kBegin)->event, NotifyEvent::kRestarted);
  EXPECT_EQ(queue.due_at(), TimePoint::max());
}

TEST(NoticeFields, HaveTheFactsOfTheEvent) {
  wire::agent::ProcessSpec spec = spec_of("trainer-0");
  spec.mutable_notify()->set_cluster("lab");
  spec.mutable_notify()->set_node("n-0");
  NoticeFacts facts{.event = NotifyEvent::kBest,
                    .unix_ms = 5,
                    .text = "t",
                    .cause = "c",
                    .progress = wire::Progress()};
  facts.progress->set_pass(3);
  facts.progress->set_passes(10);
  facts.progress->set_cost(0.5);
  facts.progress->mutable_best()->set_pass(2);
  facts.progress->mutable_best()->set_figure("auc");
  facts.progress->mutable_best()->set_value(0.75);
  OutputTail tail;
  tail.add("one\ntwo");
  EXPECT_EQ(notice_fields(spec, facts, tail).text(),
            R"({"event":"best","job":"j","cluster":"lab","node":"n-0","process":"trainer-0",)"
            R"("unix_ms":5,"text":"t","cause":"c","pass":3,"passes":10,)"
            R"("best":{"pass":2,"figure":"auc","value":0.75},)"
            R"("figures":{"cost":0.5,"examples_per_second":0},"output":["one","two"]})");
}

// Whatever a program prints: bytes that become six in JSON, and no UTF-8.
TEST(NoticeFields, StayBelow64KiBAndAreUtf8) {
  NoticeFacts facts{.text = std::string(1U << 20U, '\x01'),
                    .cause = std::string(1U << 20U, '\xff'),
                    .progress = wire::Progress()};
  facts.progress->mutable_best()->set_figure(std::string(1000, '\x02'));
  OutputTail tail;
  for (int i = 0; i < 100; ++i) tail.add(std::string(3000, '\x1b') + "\xc3\n\"}]\n");
  const std::string text = notice_fields(spec_of("trainer-0"), facts, tail).text();
  EXPECT_LT(text.size(), 60U << 10U);
  EXPECT_TRUE(is_utf8(text));
  EXPECT_EQ(text.find_first_of("\x01\x1b\n"), std::string::npos);
  EXPECT_NE(text.find(R"("\"}]"])"), std::string::npos) << "the last line is there";
}

TEST(OutputTail, KeepsTheLastTwentyLines) {
  OutputTail tail;
  for (int i = 0; i < 100'000; ++i) tail.add("line " + std::to_string(i) + "\n");
  const auto lines = tail.lines(10'000);
  ASSERT_EQ(lines.size(), 20U);
  EXPECT_EQ(lines.front(), "line 99980");
  EXPECT_EQ(lines.back(), "line 99999");
  EXPECT_TRUE(OutputTail().lines(10'000).empty());
}

TEST(OutputTail, ReplacesWhatIsNotUtf8AndCutsBetweenCharacters) {
  EXPECT_EQ(as_utf8("a\xff\xc3\xa9\xe2\x82", 100), "a\xef\xbf\xbd\xc3\xa9\xef\xbf\xbd\xef\xbf\xbd");
  EXPECT_EQ(as_utf8("a\xc3\xa9", 2), "a");
}

TEST(DiskLow, BelowTwoGigabytesOrAFewPercent) {
  EXPECT_TRUE(is_disk_low(1'999'999'999, 10'000'000'000));
  EXPECT_FALSE(is_disk_low(2'000'000'000, 10'000'000'000));
  EXPECT_TRUE(is_disk_low(49'000'000'000, 1'000'000'000'000));
  EXPECT_FALSE(is_disk_low(51'000'000'000, 1'000'000'000'000));
}

}  // namespace
}  // namespace paddle::agent
