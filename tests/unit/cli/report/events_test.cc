#include "cli/report/events.h"

#include <gtest/gtest.h>

#include "tests/support/temporary_folder.h"

namespace paddle::cli {
namespace {

constexpr const char* kProcess =
    "{\"node\": \"n-0\", \"role\": \"trainer-0\", \"state\": \"done\", "
    "\"started_unix_ms\": 1795420000000, \"ended_unix_ms\": 1795430000000, "
    "\"log\": \"node_0/train.log\"}\n";
constexpr const char* kTwoTrainers =
    "{\"role\": \"trainer-0\", \"log\": \"node_0/train.log\"}\n"
    "{\"role\": \"trainer-1\", \"log\": \"node_1/train.log\"}\n";

// One line for each event of the job in a folder, as "2 trainer-0: started": the seconds since
// 1795420000, the role and the text. A bad event ends with " !".
std::string seen_in(const test::TemporaryFolder& folder) {
  const auto record = read_job_record(folder.path(), "j");
  EXPECT_TRUE(record);
  std::string seen;
  if (!record) return seen;
  for (const JobEvent& event : record->events) {
    seen += std::to_string(event.unix_ms / 1000 - 1'795'420'000) + " " + event.role + ": " +
            event.text + (event.is_bad ? " !\n" : "\n");
  }
  return seen;
}

TEST(Events, AreStartsTestsSnapshotsWarningsAndEnds) {
  const test::TemporaryFolder folder;
  folder.write("processes.jsonl", kProcess);
  folder.write("node_0/metrics.jsonl",
               "{\"kind\":\"save\",\"path\":\"/far/pass-00003\",\"unix_ms\":1795420003000}\n"
               "{\"kind\":\"test\",\"cost\":1,\"unix_ms\":1795420002000}\n"
               "{\"kind\":\"train\",\"cost\":1,\"unix_ms\":1795420002500}\n");
  folder.write("node_0/train.log",
               "I1121 19:27:48.123456 x] told\nE1121 19:27:48.123456 x] wrong\n"
               "Warning of a library\nW112x 19:27:48.123456 x] no date\n");
  const auto test = parse_metrics("{\"kind\":\"test\",\"cost\":1,\"unix_ms\":1795420002000}");
  ASSERT_TRUE(test);
  EXPECT_EQ(seen_in(folder), "0 trainer-0: started\n2 trainer-0: " + describe(*test) +
                                 "\n3 trainer-0: snapshot pass-00003\n"
                                 "10000 trainer-0: done\n10000 trainer-0: wrong !\n")
      << "without the node's zone a warning has the time of the end";
}

// 1795420000 is 2026-11-23 07:46:40 UTC.
TEST(Events, OfALogHaveTheTimeOfTheNodesZone) {
  const test::TemporaryFolder folder;
  folder.write("processes.jsonl", kProcess);
  folder.write("machines.jsonl", "{\"node\": \"n-0\", \"utc_offset_s\": -18000}\n");
  folder.write("node_0/train.log",
               "W1123 02:46:50.123456 trainer-0] before\n"
               "paddlectl: killed by signal 9; it is started again\n"
               "I1123 02:47:10.000000 trainer-0] trainer 0 of 1\n");
  EXPECT_EQ(seen_in(folder),
            "0 trainer-0: started\n10 trainer-0: before\n"
            "30 trainer-0: killed by signal 9; restarted !\n10000 trainer-0: done\n");
}

TEST(Events, SilencesOfHeartbeatsHaveABeginAndAnEnd) {
  const test::TemporaryFolder folder;
  folder.write("processes.jsonl", kProcess);
  folder.write("machines.jsonl", "{\"node\": \"n-0\", \"utc_offset_s\": 0}\n");
  folder.write("node_0/train.log",
               "W1123 07:46:50.123456 trainer-0] no heartbeat of pserver 1 for 3.0 s\n"
               "W1123 07:46:57.123456 trainer-0] heartbeats of pserver 1 arrive again\n");
  EXPECT_EQ(seen_in(folder),
            "0 trainer-0: started\n"
            "10 trainer-0: no heartbeat of pserver 1 for 3.0 s !\n"
            "17 trainer-0: heartbeats of pserver 1 arrive again\n"
            "10000 trainer-0: done\n");
}

// Two trainers and their pserver lose a trainer, and all are started again; later by hand as well.
TEST(Events, OfARestartBeginWithItsCauseAndNameItOnce) {
  const test::TemporaryFolder folder;
  const std::vector<std::string> roles{"pserver-0", "trainer-0", "trainer-1", "trainer-2"};
  std::string processes;
  for (const std::string& role : roles) {
    processes += "{\"node\": \"n-0\", \"role\": \"" + role +
                 "\", \"state\": \"done\", \"started_unix_ms\": 1795420000000, "
                 "\"ended_unix_ms\": 1795430000000, \"log\": \"" +
                 role + ".log\"}\n";
    const std::string second = role == "trainer-1" ? "52" : "51";
    folder.write(role + ".log",
                 "I1123 07:46:41.000000 " + role + "] begins\npaddlectl: " +
                     (role == "trainer-1" ? "killed by signal 9" : "exited with code 4") +
                     "; it is started again\npaddlectl: start 2\nI1123 07:46:" + second +
                     ".500000 " + role + "] begins again\npaddlectl: start 3\nI1123 07:48:20." +
                     "000000 " + role + "] begins once more\n");
  }
  folder.write("processes.jsonl", processes);
  folder.write("machines.jsonl", "{\"node\": \"n-0\", \"utc_offset_s\": 0}\n");
  EXPECT_EQ(seen_in(folder),
            "0 job: 1 pserver and 3 trainers started\n"
            "11 trainer-1: killed by signal 9; restarted !\n"
            "11 job: 1 pserver and 2 trainers exited with code 4; restarted !\n"
            "100 job: 1 pserver and 3 trainers restarted\n"
            "10000 job: 1 pserver and 3 trainers done\n");
}

TEST(Events, OfStartsAreThoseOfTheCommandsWithTheirCounts) {
  const test::TemporaryFolder folder;
  folder.write("processes.jsonl", kProcess);
  folder.write("commands.jsonl",
               "{\"unix_ms\": 1795419000000, \"command\": \"paddlectl train\", \"trainers\": 2, "
               "\"pservers\": 2, \"is_resume\": 0}\n"
               "{\"unix_ms\": 1795420000000, \"command\": \"paddlectl train --resume\", "
               "\"trainers\": 2, \"pservers\": 1, \"is_resume\": 1}\n");
  EXPECT_EQ(seen_in(folder),
            "-1000 job: 2 pservers and 2 trainers started\n"
            "0 job: 1 pserver and 2 trainers resumed\n10000 trainer-0: done\n");
}

TEST(Events, OfTwoKillsThreeSecondsApartAreTwo) {
  const test::TemporaryFolder folder;
  std::string processes;
  for (const std::string role : {"pserver-0", "trainer-0", "trainer-1"}) {
    processes += "{\"node\": \"n-0\", \"role\": \"" + role +
                 "\", \"state\": \"done\", \"started_unix_ms\": 1795420000000, "
                 "\"ended_unix_ms\": 1795430000000, \"log\": \"" +
                 role + ".log\"}\n";
    folder.write(role + ".log",
                 "paddlectl: killed by signal 9; it is started again\n"
                 "paddlectl: start 2\nI1123 07:46:5" +
                     std::string(role == "pserver-0" ? "0" : "3") + ".500000 " + role +
                     "] begins again\n");
  }
  folder.write("processes.jsonl", processes);
  folder.write("machines.jsonl", "{\"node\": \"n-0\", \"utc_offset_s\": 0}\n");
  EXPECT_EQ(seen_in(folder),
            "0 job: 1 pserver and 2 trainers started\n"
            "10 pserver-0: killed by signal 9; restarted !\n"
            "13 job: 2 trainers killed by signal 9; restarted !\n"
            "10000 job: 1 pserver and 2 trainers done\n");
}

TEST(Events, OfARestartByHandAreNoFault) {
  const test::TemporaryFolder folder;
  folder.write("processes.jsonl", kProcess);
  folder.write("machines.jsonl", "{\"node\": \"n-0\", \"utc_offset_s\": 0}\n");
  folder.write("node_0/train.log",
               "paddlectl: ended by paddlectl restart; it is started again\npaddlectl: start 2\n"
               "I1123 07:46:50.000000 trainer-0] begins again\n");
  EXPECT_EQ(seen_in(folder),
            "0 trainer-0: started\n10 trainer-0: ended by paddlectl restart; restarted\n"
            "10000 trainer-0: done\n");
}

TEST(Events, OfALineOfSeveralLogsAreASentence) {
  const test::TemporaryFolder folder;
  std::string processes;
  for (const std::string role : {"trainer-0", "trainer-1"}) {
    processes += "{\"node\": \"n-0\", \"role\": \"" + role +
                 "\", \"ended_unix_ms\": 1795430000000, \"log\": \"" + role + ".log\"}\n";
    folder.write(role + ".log",
                 "W1123 07:46:50.000000 x] pserver 0: closed by peer: joining the job again\n");
  }
  folder.write("processes.jsonl", processes);
  folder.write("machines.jsonl", "{\"node\": \"n-0\", \"utc_offset_s\": 0}\n");
  EXPECT_EQ(seen_in(folder),
            "10 job: 2 trainers: pserver 0: closed by peer: joining the job again\n");
}

TEST(Events, WithoutATimeHaveThatOfTheLineBeforeOrOfTheStart) {
  const test::TemporaryFolder folder;
  folder.write("processes.jsonl", kProcess);
  folder.write("node_0/metrics.jsonl",
               "{\"kind\":\"save\",\"path\":\"pass-00000\"}\n"
               "{\"kind\":\"train\",\"cost\":1,\"unix_ms\":1795420002000}\n"
               "{\"kind\":\"save\",\"path\":\"pass-00001\"}\n");
  EXPECT_EQ(seen_in(folder),
            "0 trainer-0: started\n0 trainer-0: snapshot pass-00000\n"
            "2 trainer-0: snapshot pass-00001\n10000 trainer-0: done\n");
}

TEST(Events, ALogOfTheOldYearIsOfTheOldYear) {
  const test::TemporaryFolder folder;
  folder.write("processes.jsonl",
               "{\"node\": \"n-0\", \"role\": \"trainer-0\", \"state\": \"done\", \"log\": "
               "\"train.log\", \"started_unix_ms\": 1798761000000, \"ended_unix_ms\": "
               "1798762000000}\n");  // 2026-12-31 23:50:00 to 2027-01-01 00:06:40
  folder.write("machines.jsonl", "{\"node\": \"n-0\", \"utc_offset_s\": 0}\n");
  folder.write("train.log", "W1231 23:51:00.000000 x] old\nW0101 00:01:00.000000 x] new\n");
  const auto record = read_job_record(folder.path(), "j");
  ASSERT_TRUE(record);
  ASSERT_EQ(record->events.size(), 4U);
  EXPECT_EQ(record->events[1].unix_ms, 1'798'761'060'000);
  EXPECT_EQ(record->events[2].unix_ms, 1'798'761'660'000);
}

TEST(Events, OfSeveralProcessesAtOneTimeAreOne) {
  const test::TemporaryFolder folder;
  const auto process = [](const std::string& role, const std::string& state, int failed, int end) {
    return "{\"node\": \"n-0\", \"role\": \"" + role + "\", \"state\": \"" + state +
           "\", \"failed\": " + std::to_string(failed) +
           ", \"started_unix_ms\": 1795420000000, \"ended_unix_ms\": " +
           std::to_string(1'795'420'000'000 + end * 1000) + "}\n";
  };
  folder.write("processes.jsonl", process("pserver-0", "stopped", 0, 9) +
                                      process("trainer-0", "done", 0, 7) +
                                      process("trainer-1", "done", 0, 8) +
                                      process("trainer-2", "killed by signal 9 (Killed)", 1, 6) +
                                      process("trainer-3", "done", 0, 60));
  EXPECT_EQ(seen_in(folder),
            "0 job: 1 pserver and 4 trainers started\n"
            "6 trainer-2: killed by signal 9 (Killed) !\n7 job: 2 trainers done\n"
            "9 pserver-0: stopped\n60 trainer-3: done\n");
}

// Nodes know only when a process started the last time.
TEST(Events, AJobThatWasRestartedBeganWithItsFirstMetrics) {
  const test::TemporaryFolder folder;
  folder.write("processes.jsonl",
               std::string(kProcess) +
                   "{\"role\": \"pserver-0\", \"incarnation\": 2, \"state\": \"done\", "
                   "\"started_unix_ms\": 1795425000000, \"ended_unix_ms\": 1795430000000}\n");
  folder.write("node_0/metrics.jsonl",
               "{\"kind\":\"save\",\"path\":\"pass-00000\",\"unix_ms\":1795419990000}\n");
  EXPECT_EQ(seen_in(folder),
            "-10 job: 1 pserver and 1 trainer started\n-10 trainer-0: snapshot pass-00000\n"
            "10000 job: 1 pserver and 1 trainer done\n");
}

std::string log_point(int pass, int batch, int second) {
  return "{\"kind\":\"train\",\"pass\":" + std::to_string(pass) +
         ",\"batch\":" + std::to_string(batch) +
         ",\"cost\":1,\"unix_ms\":" + std::to_string(1'795'420'000'000 + second * 1000) + "}\n";
}

TEST(Events, TrainersThatStandStillTogetherAreOneStall) {
  const test::TemporaryFolder folder;
  folder.write("processes.jsonl", kTwoTrainers);
  const std::string steady =
      log_point(0, 10, 1) + log_point(0, 20, 2) + log_point(0, 30, 3) + log_point(0, 40, 4);
  folder.write("node_0/metrics.jsonl", steady + log_point(0, 50, 164) + log_point(0, 60, 165));
  folder.write("node_1/metrics.jsonl", steady + log_point(0, 50, 166) + log_point(0, 60, 199));
  EXPECT_EQ(seen_in(folder),
            "4 job: 2 trainers stalled for 2m42s !\n166 trainer-1: stalled for 33s !\n");
}

TEST(Events, TestsSnapshotsNewPassesAndSlowJobsAreNoStalls) {
  const test::TemporaryFolder folder;
  folder.write("processes.jsonl", kTwoTrainers);
  folder.write("node_0/metrics.jsonl",
               log_point(0, 10, 1) + log_point(0, 20, 2) + log_point(0, 30, 3) +
                   "{\"kind\":\"save\",\"path\":\"/x/pass-00000\",\"unix_ms\":1795420050000}\n" +
                   log_point(0, 40, 90) + log_point(1, 10, 290) + log_point(1, 20, 291));
  folder.write("node_1/metrics.jsonl", log_point(0, 10, 0) + log_point(0, 20, 300) +
                                           log_point(0, 30, 700) + log_point(0, 40, 1000));
  EXPECT_EQ(seen_in(folder), "50 trainer-0: snapshot pass-00000\n");
}

TEST(Events, APathOutOfTheFolderIsNotRead) {
  const test::TemporaryFolder folder;
  folder.write("outside.log", "E1121 19:27:48.123456 x] secret\n");
  folder.write("j/processes.jsonl",
               "{\"role\": \"trainer-0\", \"started_unix_ms\": 1, \"log\": \"../outside.log\"}\n");
  const auto record = read_job_record(folder / "j", "j");
  ASSERT_TRUE(record);
  EXPECT_EQ(record->events.size(), 1U) << "its start";
}

TEST(Events, OfManyWarningsTheLastAreKept) {
  const test::TemporaryFolder folder;
  folder.write("processes.jsonl", kProcess);
  std::string log;
  for (int i = 0; i < 1000; ++i) {
    log += "W1121 19:27:48.123456 x] number " + std::to_string(i) + "\n";
  }
  folder.write("node_0/train.log", log);
  const auto record = read_job_record(folder.path(), "j");
  ASSERT_TRUE(record);
  ASSERT_EQ(record->events.size(), 202U);
  EXPECT_EQ(record->events[2].text, "number 800");
  EXPECT_EQ(record->events.back().text, "number 999");
}

}  // namespace
}  // namespace paddle::cli
