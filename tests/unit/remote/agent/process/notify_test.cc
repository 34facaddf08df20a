// The command of [notify] as a real supervisor runs it: it never hurts the process or outlives the
// job.
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>
#include <thread>

#include <fmt/format.h>

#include "proto/command_order.h"
#include "tests/support/small_disk.h"
#include "tests/unit/remote/client/agent_fixture.h"

namespace paddle::remote {
namespace {

using std::chrono::steady_clock;

class NotifyTest : public AgentTest {
 protected:
  // A process that runs `body`, with a command that runs `command`.
  ProcessSpec notifying(AgentClient& agent, const std::string& body, const std::string& command,
                        const std::string& name = "trainer-0") {
    push_script(agent, name, body);
    ProcessSpec spec = script(name, name);
    spec.notify = {.arguments = {"sh", "-c", command},
                   .events = {"done", "failed", "restarted", "disk_low"},
                   .timeout_ms = 60'000,
                   .stalled_ms = 60'000,
                   .cluster = "lab",
                   .node = "n-0",
                   .speaks_for_job = name == "trainer-0",
                   .speaks_for_lost = false,
                   .witness_of = {}};
    return spec;
  }
  // The content of a file below the process's folder, once it has `text`.
  std::string wait_file(const std::string& name, const std::string& text) {
    const auto end = steady_clock::now() + std::chrono::seconds(60);
    std::string content;
    while (steady_clock::now() < end) {
      content = file_content(node_.root + "/jobs/job-1/" + name);
      if (content.find(text) != std::string::npos) return content;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    ADD_FAILURE() << name << " never had " << text << ":\n" << content;
    return content;
  }
  static std::string log_of(const ProcessSpec& spec) {
    return spec.log.substr(std::string("jobs/job-1/").size(),
                           spec.log.rfind('/') + 1 - std::string("jobs/job-1/").size()) +
           "notify.log";
  }
  // Whether a process mentions this text in its command line.
  static bool runs(const std::string& mark) {
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
      if (file_content(entry.path().string() + "/cmdline").find(mark) != std::string::npos)
        return true;
    }
    return false;
  }
  static bool waits_until(const std::function<bool()>& is_so) {
    const auto end = steady_clock::now() + std::chrono::seconds(30);
    while (!is_so()) {
      if (steady_clock::now() >= end) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return true;
  }
  static bool is_gone(const std::string& mark) {
    return waits_until([&] { return !runs(mark); });
  }
  wire::agent::PidRecord record_of(const std::string& name) const {
    wire::agent::PidRecord record;
    EXPECT_TRUE(
        record.ParseFromString(file_content(node_.root + "/jobs/job-1/proc/" + name + "/pid")));
    return record;
  }
  pid_t supervisor_of(const std::string& name) const { return record_of(name).supervisor(); }
  bool exists(const std::string& name) const {
    return std::filesystem::exists(node_.root + "/jobs/job-1/" + name);
  }
};

TEST_F(NotifyTest, TheCommandReadsOneObjectInTheWorkspaceWithTheVariablesOfTheProcess) {
  const auto agent = connect_agent();
  ProcessSpec spec = notifying(*agent, "printf 'bad \\377\\n\"}'; exit 0",
                               "cat > ../said.new; echo \"$COLOUR $KEY $(pwd)\" >> ../said.new; "
                               "mv ../said.new ../said; echo sent");
  spec.environment = {{"COLOUR", "blue"}, {"PADDLE_INIT_KEY_FILE", "secret"}};
  spec.notify.arguments.back().insert(0, "KEY=$PADDLE_INIT_KEY_FILE; ");
  ASSERT_TRUE(agent->start(spec));
  EXPECT_EQ(wait_end(*agent, "job-1", "trainer-0").exit_code, 0);
  const std::string said = wait_file("said", "blue");
  EXPECT_NE(said.find(R"({"event":"done","job":"job-1","cluster":"lab","node":"n-0",)"
                      R"("process":"trainer-0","unix_ms":)"),
            std::string::npos)
      << said;
  EXPECT_NE(said.find("\"output\":[\"bad \xef\xbf\xbd\",\"\\\"}\"],\"left_out\":0}\n"),
            std::string::npos)
      << said;
  EXPECT_NE(said.find("\nblue  " + node_.root + "/jobs/job-1/work\n"), std::string::npos) << said;
  EXPECT_EQ(wait_file(log_of(spec), "paddlectl: done\n"),
            "paddlectl: trainer-0: done\nsent\npaddlectl: done\n");
}

TEST_F(NotifyTest, FailuresAreReportedAfterTheLastRestart) {
  const auto agent = connect_agent();
  ProcessSpec spec = notifying(*agent, "echo run $1; kill -9 $$", "cat >> ../said", "trainer-1");
  spec.arguments = {"{incarnation}"};
  spec.restarts = 1;
  ASSERT_TRUE(agent->start(spec));
  wait_end(*agent, "job-1", "trainer-1");
  const std::string said = wait_file("said", "\"failed\"");
  EXPECT_EQ(std::ranges::count(said, '\n'), 2) << said;
  EXPECT_NE(said.find("\"text\":\"job job-1 on n-0 starts trainer-1 again (1 of 1 restarts in an "
                      "hour): killed by signal 9 (Killed)\""),
            std::string::npos)
      << said;
  EXPECT_NE(said.find("\"text\":\"job job-1 on n-0 has failed: trainer-1 killed by signal 9 "
                      "(Killed)\",\"cause\":\"killed by signal 9 (Killed)\""),
            std::string::npos)
      << said;
}

TEST_F(NotifyTest, AStopThatAPersonAskedForIsNotReported) {
  const auto agent = connect_agent();
  const ProcessSpec spec = notifying(*agent, "echo up; exec sleep 1000", "cat >> ../said");
  ASSERT_TRUE(agent->start(spec));
  wait_log(*agent, spec.log, "up\n");
  ASSERT_TRUE(agent->stop("job-1", {}, std::chrono::seconds(5)));
  wait_end(*agent, "job-1", "trainer-0");
  EXPECT_FALSE(exists("said"));
}

// A program of the user's own whose trainers fail one after the other.
TEST_F(NotifyTest, OneFailureOfAJobIsReportedByANode) {
  const auto agent = connect_agent();
  for (const char* name : {"trainer-0", "trainer-1", "trainer-2"}) {
    ProcessSpec spec =
        notifying(*agent, "while ! [ -e go ]; do sleep 0.05; done; exit 3", "cat >> ../said", name);
    ASSERT_TRUE(agent->start(spec));
  }
  write_file(node_.root + "/jobs/job-1/work/go", "");
  for (const char* name : {"trainer-0", "trainer-1", "trainer-2"})
    EXPECT_EQ(wait_end(*agent, "job-1", name).exit_code, 3);
  wait_file("said", "\"failed\"");
  EXPECT_TRUE(is_gone(node_.root + "/jobs"));
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  EXPECT_EQ(std::ranges::count(file_content(node_.root + "/jobs/job-1/said"), '\n'), 1);
}

TEST_F(NotifyTest, ACommandThatHangsIsKilledWithAllThatItStarted) {
  const auto agent = connect_agent();
  ProcessSpec spec =
      notifying(*agent, "exit 0", "sleep 31415926 & setsid sleep 31415926 & exec sleep 31415926");
  spec.notify.timeout_ms = 1000;
  ASSERT_TRUE(agent->start(spec));
  wait_file(log_of(spec), "paddlectl: killed after 1 s\n");
  EXPECT_TRUE(is_gone("31415926"));
}

TEST_F(NotifyTest, AChildThatKeepsThePipesIsEndedWithTheCommand) {
  const auto agent = connect_agent();
  ProcessSpec spec = notifying(*agent, "exit 0", "(setsid sleep 27182818 &) ; echo left one");
  ASSERT_TRUE(agent->start(spec));
  wait_file(log_of(spec), "left one\npaddlectl: done\n");
  EXPECT_TRUE(is_gone("27182818"));
}

TEST_F(NotifyTest, AFloodOfOutputIsCutOff) {
  const auto agent = connect_agent();
  ProcessSpec spec = notifying(*agent, "exit 0", "exec yes");
  ASSERT_TRUE(agent->start(spec));
  wait_file(log_of(spec), "paddlectl: killed by signal 13\n");
  EXPECT_LT(file_content(node_.root + "/jobs/job-1/" + log_of(spec)).size(), 40'000U);
}

TEST_F(NotifyTest, ACommandThatIsMissingOrFailsIsInTheLog) {
  const auto agent = connect_agent();
  ProcessSpec missing = notifying(*agent, "exit 0", "");
  missing.notify.arguments = {"./none"};
  ASSERT_TRUE(agent->start(missing));
  EXPECT_EQ(wait_end(*agent, "job-1", "trainer-0").exit_code, 0);
  wait_file(log_of(missing),
            "cannot execute ./none: No such file or directory\npaddlectl: exited with code 127\n");
  ASSERT_TRUE(agent->start(notifying(*agent, "exit 0", "exit 1")));
  wait_file(log_of(missing), "paddlectl: exited with code 1\n");
  missing.notify.arguments = {"no-such-program"};
  ASSERT_TRUE(agent->start(missing));
  wait_file(log_of(missing), "cannot execute no-such-program: No such file or directory\n");
}

// A process whose killed parent had started it last is found by another look.
TEST_F(NotifyTest, ACommandThatStartsProcessesAllTheTimeLeavesNone) {
  const auto agent = connect_agent();
  const ProcessSpec spec = notifying(
      *agent, "exit 0",
      "for i in 1 2 3; do setsid sh -c 'while :; do setsid sleep 26457513 & sleep 0.002; done' & "
      "done; sleep 0.3");
  ASSERT_TRUE(agent->start(spec));
  wait_file(log_of(spec), "paddlectl: done\n");
  EXPECT_TRUE(is_gone("26457513"));
}

TEST_F(NotifyTest, AnotherStartEndsTheCommandOfTheEarlierOneAndOnlyThat) {
  const auto agent = connect_agent();
  ASSERT_TRUE(
      agent->start(notifying(*agent, "exit 3", "touch ../runs; setsid sleep 22360679 & sleep 99")));
  wait_end(*agent, "job-1", "trainer-0");
  ASSERT_TRUE(waits_until([&] { return exists("runs"); }));
  ASSERT_TRUE(agent->start(notifying(*agent, "exit 0", "sleep 3; echo whole > ../second")));
  EXPECT_TRUE(is_gone("22360679"));
  wait_file("second", "whole");
}

// Nothing else ends what its command has started.
TEST_F(NotifyTest, TheCommandOfAKilledSupervisorIsEndedWithTheJob) {
  const auto agent = connect_agent();
  const auto begin = [&] {
    std::filesystem::remove(node_.root + "/jobs/job-1/runs");
    const auto started = agent->start(
        notifying(*agent, "exit 0", "setsid sleep 24494897 & touch ../runs; exec sleep 99"));
    ASSERT_TRUE(started) << started.error().message;
    wait_end(*agent, "job-1", "trainer-0");
    ASSERT_TRUE(waits_until([&] { return exists("runs"); }));
    ASSERT_EQ(::kill(supervisor_of("trainer-0"), SIGKILL), 0);
  };
  begin();
  ASSERT_TRUE(agent->start(notifying(*agent, "exit 0", "true")));
  EXPECT_TRUE(is_gone("24494897")) << "another start";
  wait_end(*agent, "job-1", "trainer-0");
  begin();
  ASSERT_TRUE(
      agent->claim_job({.job = "job-1", .claim = {JobCommand::kStopNow, "alice@laptop, pid 12"}}));
  ASSERT_TRUE(agent->stop("job-1", {}, std::chrono::seconds(5)));
  EXPECT_TRUE(is_gone("24494897")) << "stop --now";
  ASSERT_TRUE(agent->release_job("job-1"));
  begin();
  ASSERT_TRUE(agent->remove("jobs/job-1"));
  EXPECT_TRUE(is_gone("24494897")) << "rm";
}

TEST_F(NotifyTest, ACommandThatRunsIsNoLeftover) {
  const auto agent = connect_agent();
  ASSERT_TRUE(agent->start(
      notifying(*agent, "exit 3", "setsid sleep 28284271 & touch ../runs; exec sleep 28284271")));
  wait_end(*agent, "job-1", "trainer-0");
  ASSERT_TRUE(waits_until([&] { return exists("runs"); }));
  const auto found = agent->leftovers();
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(found->process_count(), 0U) << found->DebugString();
}

// A stop without a claim is that of the rest of a failed job. It finds the failed process first.
TEST_F(NotifyTest, ALateSupervisorReportsTheFailureThoughTheRestIsStopped) {
  const auto agent = connect_agent();
  const ProcessSpec spec =
      notifying(*agent, "echo up; exec sleep 1000", "sleep 1; cat >> ../said", "trainer-1");
  ASSERT_TRUE(agent->start(spec));
  wait_log(*agent, spec.log, "up\n");
  wire::agent::PidRecord record = record_of("trainer-1");
  ASSERT_EQ(::kill(record.supervisor(), SIGSTOP), 0);
  ASSERT_EQ(::kill(record.pid(), SIGKILL), 0);
  ASSERT_TRUE(waits_until([&] {
    return file_content(fmt::format("/proc/{}/stat", record.pid())).find(") Z ") !=
           std::string::npos;
  })) << "it ends only when it runs next";
  std::thread later([&] {
    EXPECT_TRUE(waits_until([&] { return exists("proc/trainer-1/stop"); }));
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    ::kill(record.supervisor(), SIGCONT);
  });
  EXPECT_TRUE(agent->stop("job-1", {}, std::chrono::minutes(1)));
  later.join();
  const std::string said = wait_file("said", "\"failed\"");
  EXPECT_NE(said.find("\"cause\":\"killed by signal 9 (Killed)\""), std::string::npos) << said;
}

// Another process of the node that starts, or starts again, forgets no failure of the run.
TEST_F(NotifyTest, ANodeReportsOneFailureOfARun) {
  const auto agent = connect_agent();
  const auto fail = [&](const char* name, std::uint64_t run) {
    ProcessSpec spec = notifying(*agent, "exit 3", "cat >> ../said", name);
    spec.run = run;
    ASSERT_TRUE(agent->start(spec));
    wait_end(*agent, "job-1", name);
    EXPECT_TRUE(is_gone(std::string("supervise") + '\0' + node_.root));
  };
  const auto count = [&] {
    return std::ranges::count(file_content(node_.root + "/jobs/job-1/said"), '\n');
  };
  fail("trainer-0", 1);
  fail("trainer-1", 1);
  EXPECT_EQ(count(), 1);
  fail("trainer-0", 2);
  EXPECT_EQ(count(), 2);
}

// Nobody has to wait for a command: the job has ended, can be started again, and be torn down.
TEST_F(NotifyTest, ACommandThatRunsHoldsUpNothing) {
  const auto agent = connect_agent();
  const ProcessSpec spec = notifying(*agent, "exit 3", "touch ../runs; exec sleep 16180339");
  ASSERT_TRUE(agent->start(spec));
  EXPECT_EQ(wait_end(*agent, "job-1", "trainer-0").exit_code, 3);
  ASSERT_TRUE(waits_until([&] { return exists("runs"); }));
  // The stop of the rest of a failed job leaves it.
  ASSERT_TRUE(agent->stop("job-1", {}, std::chrono::seconds(5)));
  EXPECT_TRUE(runs("16180339"));
  ASSERT_TRUE(agent->start(notifying(*agent, "exit 0", "true")));
  EXPECT_EQ(wait_end(*agent, "job-1", "trainer-0").exit_code, 0);
  const auto torn_down = agent->teardown(false);
  ASSERT_TRUE(torn_down) << torn_down.error().message;
  EXPECT_TRUE(torn_down->remaining().empty());
  EXPECT_TRUE(is_gone("16180339"));
}

TEST_F(NotifyTest, TheRemovalOfAJobEndsItsCommand) {
  const auto agent = connect_agent();
  ASSERT_TRUE(agent->start(notifying(*agent, "exit 0", "touch ../runs; exec sleep 14142135")));
  wait_end(*agent, "job-1", "trainer-0");
  ASSERT_TRUE(waits_until([&] { return exists("runs"); }));
  ASSERT_TRUE(agent->remove("jobs/job-1"));
  EXPECT_TRUE(is_gone("14142135"));
  EXPECT_FALSE(exists(""));
}

TEST_F(NotifyTest, StopNowEndsTheCommandOfAnEndedProcess) {
  const auto agent = connect_agent();
  ASSERT_TRUE(agent->start(notifying(*agent, "exit 3", "touch ../runs; exec sleep 17320508")));
  wait_end(*agent, "job-1", "trainer-0");
  ASSERT_TRUE(waits_until([&] { return exists("runs"); }));
  ASSERT_TRUE(
      agent->claim_job({.job = "job-1", .claim = {JobCommand::kStopNow, "alice@laptop, pid 12"}}));
  ASSERT_TRUE(agent->stop("job-1", {}, std::chrono::seconds(5)));
  EXPECT_FALSE(runs("17320508"));
}

// A disk below 2 GB is low. One of the processes on a node reports it.
TEST_F(NotifyTest, ALowDiskIsReportedOnceByANode) {
  const std::string disk = folder_ + "/disk";
  std::filesystem::create_directory(disk);
  node_.root = disk + "/root";
  const bool can_mount = test::on_small_disk(disk, "256m", [&] {
    const auto agent = connect_agent();
    for (const char* name : {"trainer-0", "trainer-1", "trainer-2"})
      ASSERT_TRUE(agent->start(notifying(*agent, "exec sleep 1000", "cat >> ../said", name)));
    wait_file("said", "\"disk_low\"");
    std::this_thread::sleep_for(std::chrono::seconds(2));
    const std::string said = file_content(node_.root + "/jobs/job-1/said");
    EXPECT_EQ(std::ranges::count(said, '\n'), 1) << said;
    EXPECT_NE(said.find("MB left on the disk of its folder"), std::string::npos) << said;
    EXPECT_TRUE(agent->teardown(false));
  });
  if (!can_mount) GTEST_SKIP() << "nothing can be mounted here";
}

}  // namespace
}  // namespace paddle::remote
