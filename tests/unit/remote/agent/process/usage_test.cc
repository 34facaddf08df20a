// Memory and CPU time of processes, as a real agent's status tells them.
#include "remote/agent/node/proc.h"
#include "tests/unit/remote/client/agent_fixture.h"

namespace paddle::remote {
namespace {

TEST_F(AgentTest, UsageLeavesOutTheSupervisorAndItsGuard) {
  const auto client = connect_agent();
  push_script(*client, "sleeper", "exec sleep 600");
  ProcessSpec spec = script("sleeper", "trainer-0");
  spec.restarts = 1;
  ASSERT_TRUE(client->start(spec));
  // The script becomes `sleep`, whose memory stays as it is.
  std::uint64_t told = 0;
  agent::ProcStat sleeper;
  for (const TimePoint end = SteadyClock().now() + std::chrono::seconds(20);
       (told == 0 || told != sleeper.resident_bytes) && SteadyClock().now() < end;) {
    const auto status = client->status("job-1");
    ASSERT_TRUE(status) << status.error().message;
    const ProcessStatus& process = status->processes.at(0);
    ASSERT_TRUE(process.usage);
    told = process.usage->resident_bytes;
    ASSERT_TRUE(agent::read_stat(process.pid, sleeper));
  }
  EXPECT_EQ(told, sleeper.resident_bytes);
  EXPECT_TRUE(client->stop("job-1", {}, std::chrono::seconds(5)));
}

TEST_F(AgentTest, StatusTellsWhatAProcessAndItsChildrenUse) {
  auto agent = connect_agent();
  push_script(*agent, "work", "(exec sleep 1000) & echo up; exec sleep 1000");
  ProcessSpec spec = script("work", "trainer-0");
  spec.arguments = {"--set=a"};
  ASSERT_TRUE(agent->start(spec));
  wait_log(*agent, script("work", "trainer-0").log, "up\n");
  const auto status = agent->status("job-1");
  ASSERT_TRUE(status) << status.error().message;
  ASSERT_EQ(status->processes.size(), 1U);
  ASSERT_TRUE(status->processes[0].usage);
  EXPECT_GT(status->processes[0].usage->resident_bytes, 100'000U);
  EXPECT_GT(status->node.unix_ms, status->processes[0].started_unix_ms - 1);
  EXPECT_GT(status->node.memory_available_bytes, 0U);
  EXPECT_GT(status->node.cpu_busy_ms, 0U);
  EXPECT_EQ(status->processes[0].arguments, spec.arguments);
  EXPECT_FALSE(agent->processes("job-1")->at(0).usage) << "only when asked for";
  ASSERT_TRUE(agent->stop("job-1", {}, std::chrono::seconds(5)));
  const auto ended = agent->status("job-1")->processes.at(0);
  ASSERT_TRUE(ended.usage) << "its peak, from its exit record";
  EXPECT_GT(ended.usage->resident_bytes, 100'000U);
}

}  // namespace
}  // namespace paddle::remote
