// Supervisors that are killed, and the guards that start others.
#include <sys/mount.h>
#include <unistd.h>

#include <csignal>
#include <functional>
#include <string>

#include <fmt/format.h>

#include "base/fd.h"
#include "proto/agent.pb.h"
#include "remote/agent/node/proc.h"
#include "tests/support/small_disk.h"
#include "tests/support/temporary_folder.h"
#include "tests/unit/remote/client/agent_fixture.h"

namespace paddle::remote {
namespace {

constexpr std::chrono::hours kTwoDays(48);

class GuardTest : public AgentTest {
 protected:
  // Tells its incarnation and that of a child, and stays.
  void start_sleeper(std::uint32_t restarts) {
    push_script(*agent_, "sleeper",
                "sleep 1000 & echo \"incarnation $1 child $!.\"; exec sleep 1000");
    start("sleeper", restarts);
  }
  void start(const std::string& script_name, std::uint32_t restarts) {
    const bool any_exit = spec_.any_exit;
    spec_ = script(script_name, "p");
    spec_.any_exit = any_exit;
    spec_.arguments = {"{incarnation}"};
    spec_.restarts = restarts;
    const Status started = agent_->start(spec_);
    ASSERT_TRUE(started) << started.error().message;
    wait_run(1);
  }
  std::string wait_run(int incarnation) {
    return wait_log(*agent_, spec_.log, fmt::format("incarnation {} ", incarnation));
  }
  wire::agent::PidRecord record() {
    wire::agent::PidRecord record;
    EXPECT_TRUE(record.ParseFromString(file_content(node_.root + "/jobs/job-1/proc/p/pid")));
    return record;
  }
  ProcessStatus status() { return agent_->processes("job-1")->at(0); }
  static bool is_there(int pid) {
    agent::ProcStat stat;
    return agent::read_stat(pid, stat) && stat.state != 'Z';
  }
  static void expect_to_go(int pid) {
    const TimePoint end = SteadyClock().now() + std::chrono::seconds(30);
    while (is_there(pid) && SteadyClock().now() < end) ::usleep(1000);
    EXPECT_FALSE(is_there(pid));
  }
  void expect_to_stop() {
    const Status stopped = agent_->stop("job-1", {}, std::chrono::seconds(20));
    EXPECT_TRUE(stopped) << stopped.error().message;
    EXPECT_TRUE(status().stopped);
    EXPECT_EQ(processes_using(node_.root + "/jobs"), std::vector<int>{});
    EXPECT_EQ(agent_->leftovers()->process_count(), 0U);
  }

  std::unique_ptr<AgentClient> agent_ = connect_agent();
  ProcessSpec spec_;
};

TEST_F(GuardTest, AKilledSupervisorIsFollowedByAnotherWhichStartsItsProcessAgain) {
  start_sleeper(5);
  const std::string log = wait_log(*agent_, spec_.log, ".\n");
  const int child = std::stoi(log.substr(log.find("child ") + 6));
  const auto before = record();
  ASSERT_GT(before.guard(), 1);
  ASSERT_TRUE(is_there(child));
  ASSERT_EQ(::kill(before.supervisor(), SIGKILL), 0);
  wait_run(2);
  EXPECT_FALSE(is_there(before.pid()));
  EXPECT_FALSE(is_there(child)) << "what it had started";
  const auto after = record();
  EXPECT_EQ(after.guard(), before.guard());
  EXPECT_NE(after.supervisor(), before.supervisor());
  const ProcessStatus now = status();
  EXPECT_EQ(now.state, ProcessState::kRunning);
  EXPECT_EQ(now.incarnation, 2U);
  ASSERT_EQ(now.restarts.size(), 1U);
  EXPECT_EQ(now.restarts[0].signal, SIGKILL);
  EXPECT_EQ(now.restarts[0].failures, 1U);
  EXPECT_EQ(agent_->leftovers()->process_count(), 0U);
  expect_to_stop();
}

TEST_F(GuardTest, FailuresThatItsPredecessorSawGoOnCounting) {
  push_script(*agent_, "mortal",
              "echo \"incarnation $1 \"; [ $1 = 2 ] || kill -9 $$; exec sleep 1000");
  start("mortal", 2);
  wait_run(2);
  ASSERT_EQ(::kill(record().supervisor(), SIGKILL), 0);
  const ProcessStatus end = wait_end(*agent_, "job-1", "p");
  EXPECT_EQ(end.state, ProcessState::kKilled) << "it has failed three times";
  EXPECT_EQ(end.incarnation, 3U);
  EXPECT_EQ(end.restarts.size(), 2U);
}

// As if someone had set the clock in between: by the wall, the first failure was two days ago.
TEST_F(GuardTest, AClockThatIsSetForgetsNoFailure) {
  push_script(*agent_, "mortal",
              "echo \"incarnation $1 \"; [ $1 = 2 ] || kill -9 $$; exec sleep 1000");
  start("mortal", 2);
  wait_run(2);
  const std::string path = node_.root + "/jobs/job-1/proc/p/restarts";
  wire::agent::Restarts restarts;
  ASSERT_TRUE(restarts.ParseFromString(file_content(path)));
  ASSERT_EQ(restarts.restarts_size(), 1);
  auto& first = *restarts.mutable_restarts(0);
  first.set_ended_unix_ms(first.ended_unix_ms() - std::chrono::milliseconds(kTwoDays).count());
  write_file(path, restarts.SerializeAsString());
  ASSERT_EQ(::kill(record().supervisor(), SIGKILL), 0);
  const ProcessStatus end = wait_end(*agent_, "job-1", "p");
  EXPECT_EQ(end.state, ProcessState::kKilled) << "it has failed three times";
  EXPECT_EQ(end.incarnation, 3U);
}

// The third pause is the first of 2 s.
TEST_F(GuardTest, AnEndIsCountedOnceThoughTheSupervisorIsKilledInThePauseAfterIt) {
  push_script(*agent_, "mortal",
              "echo \"incarnation $1 \"; [ $1 -ge 4 ] || exit 9; exec sleep 1000");
  spec_.any_exit = true;
  start("mortal", 5);
  const TimePoint end = SteadyClock().now() + std::chrono::seconds(30);
  while (status().restarts.size() < 3 && SteadyClock().now() < end) ::usleep(1000);
  ASSERT_EQ(::kill(record().supervisor(), SIGKILL), 0);
  wait_run(4);
  const ProcessStatus now = status();
  ASSERT_EQ(now.restarts.size(), 3U);
  for (std::uint32_t i = 0; i < 3; ++i) {
    EXPECT_EQ(now.restarts[i].incarnation, i + 1);
    EXPECT_EQ(now.restarts[i].failures, i + 1);
    EXPECT_EQ(now.restarts[i].exit_code, 9);
  }
  ASSERT_EQ(::kill(record().pid(), SIGKILL), 0);
  wait_run(5);
  ASSERT_EQ(status().restarts.size(), 4U);
  EXPECT_EQ(status().restarts[3].failures, 4U);
  expect_to_stop();
}

TEST_F(GuardTest, WithoutItsGuardASupervisorGoesOn) {
  start_sleeper(5);
  const auto before = record();
  ASSERT_EQ(::kill(before.guard(), SIGKILL), 0);
  expect_to_go(before.guard());
  EXPECT_EQ(status().state, ProcessState::kRunning);
  ASSERT_EQ(::kill(before.pid(), SIGKILL), 0);
  wait_run(2);
  EXPECT_EQ(status().state, ProcessState::kRunning);
  expect_to_stop();
}

TEST_F(GuardTest, WithoutBothAProcessIsLost) {
  start_sleeper(5);
  const auto before = record();
  for (const int pid : {before.guard(), before.supervisor()}) ASSERT_EQ(::kill(pid, SIGKILL), 0);
  EXPECT_EQ(wait_end(*agent_, "job-1", "p").state, ProcessState::kLost);
}

TEST_F(GuardTest, AGuardThatIsToldToEndEndsTheProcess) {
  start_sleeper(5);
  const auto before = record();
  ASSERT_EQ(::kill(before.guard(), SIGTERM), 0);
  const ProcessStatus end = wait_end(*agent_, "job-1", "p");
  EXPECT_EQ(end.state, ProcessState::kKilled);
  EXPECT_EQ(end.signal, SIGTERM);
  EXPECT_EQ(end.incarnation, 1U);
}

// AgentTest sees what is left.
TEST_F(GuardTest, ATeardownEndsSupervisorAndGuardWhicheverIsLeft) {
  start_sleeper(5);
  const auto first = record();
  spec_.name = "q";
  ASSERT_TRUE(agent_->start(spec_));
  ASSERT_EQ(::kill(first.guard(), SIGKILL), 0);
  const auto report = agent_->teardown(false);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_TRUE(report->remaining().empty());
}

// The folder of a job can only be read while its process is started again and ends.
class ReadOnlyJob : public GuardTest {
 protected:
  // Calls `work` where mounts can be made, with an agent that sees them.
  void where_mounts_can_be_made(const std::function<void()>& work) {
    const test::TemporaryFolder other;
    const auto with_agent = [&] {
      agent_ = connect_agent();
      work();
      agent_.reset();
    };
    agent_.reset();
    if (!test::on_small_disk(other.path(), "64k", with_agent))
      GTEST_SKIP() << "nothing can be mounted here";
  }
  std::string job() const { return node_.root + "/jobs/job-1"; }
  bool mounted(unsigned long flags) const {
    return ::mount("none", job().c_str(), nullptr, MS_REMOUNT | MS_BIND | flags, nullptr) == 0;
  }
  // Starts a process, lets its folder be read only, and ends the process with code 9.
  void end_while_it_can_only_be_read(std::uint32_t restarts) {
    push_script(
        *agent_, "waiter",
        "echo \"incarnation $1 \"; until [ -e '" + end_ + "' ]; do sleep 0.02; done; exit 9");
    start("waiter", restarts);
    before_ = record();
    ASSERT_EQ(::mount(job().c_str(), job().c_str(), nullptr, MS_BIND, nullptr), 0);
    ASSERT_TRUE(mounted(MS_RDONLY));
    if (restarts > 0) {
      ASSERT_EQ(::kill(before_.pid(), SIGKILL), 0);
      const TimePoint end = SteadyClock().now() + std::chrono::seconds(60);
      while (status().incarnation < 2 && SteadyClock().now() < end) ::usleep(1000);
      EXPECT_EQ(status().state, ProcessState::kRunning);
      EXPECT_EQ(status().incarnation, 2U);
      EXPECT_EQ(record().incarnation(), 1U) << "the disk took nothing";
    }
    write_file(end_, "");
    (void)wait_end(*agent_, "job-1", "p");
    expect_end(restarts);
  }
  void expect_end(std::uint32_t restarts) {
    const ProcessStatus now = status();
    EXPECT_EQ(now.state, ProcessState::kExited);
    EXPECT_EQ(now.exit_code, 9);
    EXPECT_EQ(now.restarts.size(), restarts > 0 ? 1U : 0U);
  }
  void expect_no_supervisor() const {
    for (const auto pid : {before_.supervisor(), before_.guard()}) {
      if (pid > 0) expect_to_go(static_cast<int>(pid));
    }
  }

  std::string end_ = folder_ + "/end";
  wire::agent::PidRecord before_;
};

TEST_F(ReadOnlyJob, ItsProcessesAreStartedAgainAndTheirEndIsWrittenOnceItCanBe) {
  where_mounts_can_be_made([this] {
    end_while_it_can_only_be_read(5);
    // As `train` does with the rest of a job that has failed.
    EXPECT_TRUE(agent_->stop("job-1", {}, std::chrono::seconds(5)));
    expect_end(5);
    ASSERT_TRUE(mounted(0));
    expect_no_supervisor();
    expect_end(5);
    EXPECT_EQ(record().incarnation(), 2U);
  });
}

TEST_F(ReadOnlyJob, AnEndWithoutAGuardIsNotLostEither) {
  where_mounts_can_be_made([this] {
    end_while_it_can_only_be_read(0);
    EXPECT_TRUE(agent_->stop("job-1", {}, std::chrono::seconds(5)));
    expect_end(0);
    ASSERT_TRUE(mounted(0));
    expect_no_supervisor();
    expect_end(0);
  });
}

TEST_F(ReadOnlyJob, ATeardownEndsTheSupervisorThatKeepsAnEnd) {
  where_mounts_can_be_made([this] {
    end_while_it_can_only_be_read(5);
    const auto report = agent_->teardown(false);
    ASSERT_TRUE(report) << report.error().message;
    EXPECT_FALSE(report->remaining().empty()) << "its files can only be read";
    expect_no_supervisor();
  });
}

TEST_F(GuardTest, AStopIsNotForgottenByTheNextSupervisor) {
  start_sleeper(5);
  const auto before = record();
  ASSERT_EQ(::kill(before.supervisor(), SIGKILL), 0);
  // Whether or not another one is there yet.
  ASSERT_TRUE(agent_->stop("job-1", {}, std::chrono::seconds(20)));
  expect_to_go(before.guard());
  EXPECT_NE(status().state, ProcessState::kRunning);
  EXPECT_EQ(processes_using(node_.root + "/jobs"), std::vector<int>{});
}

}  // namespace
}  // namespace paddle::remote
