#include "cli/report/record.h"

#include <gtest/gtest.h>

#include "tests/support/fake_cluster.h"
#include "tests/support/temporary_folder.h"

namespace paddle::cli {
namespace {

remote::ProcessStatus status_of(const std::string& name, remote::ProcessState state) {
  remote::ProcessStatus status;
  status.job = "j";
  status.name = name;
  status.log = "jobs/j/node_0/" + name + ".log";
  status.state = state;
  status.started_unix_ms = 1000;
  status.ended_unix_ms = 5000;
  return status;
}

TEST(JobRecord, ProcessesAreReadAsTheyWereWritten) {
  FakeCluster fake(1);
  remote::ProcessStatus failed = status_of("trainer-0", remote::ProcessState::kExited);
  failed.exit_code = 6;
  failed.arguments = {"train", "--set=a=\"b\""};
  failed.usage = remote::Usage{100, 200, 300, 400, 0};
  remote::ProcessStatus stopped = status_of("trainer-1", remote::ProcessState::kKilled);
  stopped.signal = 15;
  stopped.stopped = true;
  stopped.life = 3;
  fake.node(0).processes = {failed, stopped, status_of("pserver-0", remote::ProcessState::kRunning),
                            status_of("trainer-10", remote::ProcessState::kExited),
                            status_of("trainer-2", remote::ProcessState::kLost)};
  ClusterSession session = fake.session();
  JobView view("j");
  view.look(fake.context, session);
  const test::TemporaryFolder folder;
  ASSERT_TRUE(write_processes(folder.path(), view));
  const auto record = read_job_record(folder.path(), "j");
  ASSERT_TRUE(record);
  ASSERT_EQ(record->processes.size(), 5U);
  const auto& all = record->processes;
  EXPECT_EQ(all[0].role, "pserver-0");
  EXPECT_EQ(all[0].state, "running");
  EXPECT_FALSE(all[0].failed);
  EXPECT_EQ(all[0].ended_unix_ms, 0) << "it has not ended";
  EXPECT_EQ(all[1].node, "n-0");
  EXPECT_EQ(all[1].state, "exited with code 6");
  EXPECT_TRUE(all[1].failed);
  EXPECT_EQ(all[1].ended_unix_ms, 5000);
  EXPECT_EQ(all[1].arguments, "train --set=a=\"b\"");
  EXPECT_EQ(all[1].resident_bytes, 100);
  EXPECT_EQ(all[1].cpu_ms, 200);
  EXPECT_EQ(all[1].received_bytes, 300);
  EXPECT_EQ(all[1].sent_bytes, 400);
  EXPECT_FALSE(all[2].failed) << "stopped by us";
  EXPECT_EQ(all[2].life, 3U);
  EXPECT_EQ(all[3].role, "trainer-2");
  EXPECT_TRUE(all[3].failed) << "lost";
  EXPECT_EQ(all[4].role, "trainer-10");
  EXPECT_FALSE(all[4].failed);
}

TEST(JobRecord, ArgumentsThatTheSupervisorFillsInAreLeftOut) {
  const test::TemporaryFolder folder;
  folder.write("processes.jsonl",
               "{\"role\": \"trainer-0\", \"arguments\": \"train --config=job.toml "
               "--save_dir={root}/jobs/j/output --incarnation={life} --resume={again} "
               "--job_tag=12ab --set=a=1\"}\n");
  const auto record = read_job_record(folder.path(), "j");
  ASSERT_TRUE(record);
  EXPECT_EQ(record->processes[0].arguments, "train --config=job.toml --set=a=1");
}

TEST(StepsOf, CountTheBatchesOfAllPasses) {
  std::vector<MetricsLine> lines(4);
  lines[0].batch = 10;
  lines[1].batch = 20;
  lines[2].pass = 1;
  lines[2].batch = 5;
  lines[3].pass = 2;
  lines[3].batch = 1;
  std::vector<std::uint64_t> steps;
  for (const StepOfLine& at : steps_of(lines)) steps.push_back(at.step);
  EXPECT_EQ(steps, (std::vector<std::uint64_t>{10, 20, 25, 26}));
}

}  // namespace
}  // namespace paddle::cli
