// Logs of processes, read from a real agent while they are written.
#include <sys/stat.h>

#include "tests/unit/remote/client/agent_fixture.h"

namespace paddle::remote {
namespace {

TEST_F(AgentTest, ALogTellsWhenItsLinesWereWritten) {
  auto agent = connect_agent();
  push_script(*agent, "say", "echo one; read line < gate; echo two");
  const ProcessSpec spec = script("say", "trainer-0");
  const auto made =
      push(*agent, {{write_file(folder_ + "/keep", ""), spec.directory + "/keep", false}});
  ASSERT_TRUE(made) << made.error().message;
  ASSERT_EQ(::mkfifo((node_.root + "/" + spec.directory + "/gate").c_str(), 0600), 0);
  ASSERT_TRUE(agent->start(spec));
  wait_log(*agent, spec.log, "one\n");
  const auto first = agent->read_file(spec.log, 0, 1000);
  ASSERT_EQ(first->times.size(), 1U);
  const std::int64_t between = agent->status("job-1")->node.unix_ms;
  EXPECT_LE(first->times[0].unix_ms, between);
  // The second line is written a step of the times later, whatever the machine does.
  while (agent->status("job-1")->node.unix_ms < between + 20) {
  }
  write_file(node_.root + "/" + spec.directory + "/gate", "go\n");
  wait_end(*agent, "job-1", "trainer-0");
  EXPECT_EQ(agent->read_file(spec.log, 0, 1000, between + 1)->data, "two\n");
  EXPECT_EQ(agent->read_file(spec.log, 0, 1000)->times.size(), 2U);
}

TEST_F(AgentTest, LogIsFollowedByOffset) {
  auto agent = connect_agent();
  push_script(*agent, "count", "echo one; while ! [ -e go ]; do sleep 0.05; done; echo two");
  ASSERT_TRUE(agent->start(script("count", "t")));
  const std::string log = "jobs/job-1/output/t.log";
  EXPECT_EQ(wait_log(*agent, log, "one"), "one\n");
  EXPECT_EQ(agent->read_file(log, 4, 100)->data, "");
  write_file(node_.root + "/jobs/job-1/work/go", "");
  wait_end(*agent, "job-1", "t");
  EXPECT_EQ(agent->read_file(log, 4, 100)->data, "two\n");
  EXPECT_EQ(agent->read_file(log, 0, 3)->data, "one");
  EXPECT_EQ(agent->read_file(log, 0, 3)->next_offset, 3U);
}

}  // namespace
}  // namespace paddle::remote
