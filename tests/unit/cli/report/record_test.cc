#include "cli/report/record.h"

#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

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

// As after two Ctrl-C: what ends for lack of its peers has not failed.
TEST(JobRecord, OfAJobThatWasStoppedNothingHasFailed) {
  FakeCluster fake(1);
  remote::ProcessStatus trainer = status_of("trainer-0", remote::ProcessState::kKilled);
  trainer.signal = 15;
  trainer.stopped = true;
  remote::ProcessStatus pserver = status_of("pserver-0", remote::ProcessState::kExited);
  pserver.exit_code = 4;
  pserver.ended_unix_ms = 4000;
  for (const bool is_stopped : {true, false}) {
    trainer.stopped = is_stopped;
    trainer.signal = is_stopped ? 15 : 9;
    fake.node(0).processes = {trainer, pserver};
    ClusterSession session = fake.session();
    JobView view("j");
    view.look(fake.context, session);
    const test::TemporaryFolder folder;
    ASSERT_TRUE(write_processes(folder.path(), view));
    const auto record = read_job_record(folder.path(), "j");
    ASSERT_TRUE(record);
    for (const ProcessRecord& process : record->processes)
      EXPECT_EQ(process.failed, !is_stopped) << process.role;
  }
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
  stopped.incarnation = 3;
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
  EXPECT_EQ(all[2].incarnation, 3U);
  EXPECT_EQ(all[3].role, "trainer-2");
  EXPECT_TRUE(all[3].failed) << "lost";
  EXPECT_EQ(all[4].role, "trainer-10");
  EXPECT_FALSE(all[4].failed);
}

TEST(JobRecord, ArgumentsThatTheSupervisorFillsInAreLeftOut) {
  const test::TemporaryFolder folder;
  folder.write("processes.jsonl",
               "{\"role\": \"trainer-0\", \"arguments\": \"train --config=job.toml "
               "--save_dir={root}/jobs/j/output --incarnation={incarnation} --resume={again} "
               "--job_tag=12ab --set=a=1\"}\n");
  const auto record = read_job_record(folder.path(), "j");
  ASSERT_TRUE(record);
  EXPECT_EQ(record->processes[0].arguments, "train --config=job.toml --set=a=1");
}

class HostileRecordTest : public ::testing::Test {
 protected:
  // Processes that all name one log.
  JobRecord read(int processes = 1) {
    std::string text;
    for (int i = 0; i < processes; ++i) {
      text += "{\"role\": \"trainer-" + std::to_string(i) +
              "\", \"log\": \"node_0/train.log\", \"started_unix_ms\": 1}\n";
    }
    folder_.write("processes.jsonl", text);
    auto record = read_job_record(folder_.path(), "j");
    EXPECT_TRUE(record);
    return record ? *std::move(record) : JobRecord();
  }
  // A line at the end of others that are none.
  void write_metrics(std::size_t lines_before) {
    std::ofstream file(folder_ / "node_0/metrics.jsonl");
    for (std::size_t i = 0; i < lines_before; ++i) file << std::string(kLineBytes, 'x') << '\n';
    file << "{\"kind\":\"train\",\"cost\":2}\n";
  }
  static std::size_t said(const JobRecord& record) {
    return static_cast<std::size_t>(std::ranges::count_if(
        record.events, [](const JobEvent& event) { return event.text.ends_with("are left out"); }));
  }
  void SetUp() override { folder_.write("node_0/train.log", ""); }

  static constexpr std::size_t kLineBytes = 64U << 10U;
  test::TemporaryFolder folder_;
};

TEST_F(HostileRecordTest, LinesOfManyFieldsAreLeftOut) {
  std::string fields;
  for (int i = 0; i < 4000; ++i) fields += ",\"" + std::to_string(i) + "\":1";
  std::string text;
  for (int i = 0; i < 10; ++i) text += "{\"kind\":\"train\"" + fields + "}\n";
  folder_.write("node_0/metrics.jsonl", text + "{\"kind\":\"train\",\"cost\":2}");
  const JobRecord record = read();
  ASSERT_EQ(record.processes[0].metrics.size(), 1U);
  EXPECT_EQ(record.processes[0].metrics[0].cost, 2);
  EXPECT_EQ(said(record), 0U);
}

TEST_F(HostileRecordTest, MetricsWithoutEndAreReadToALimitAndThatIsSaid) {
  write_metrics(1024);
  const JobRecord one = read();
  EXPECT_TRUE(one.processes[0].metrics.empty());
  EXPECT_EQ(said(one), 1U);
  write_metrics(1023);
  const JobRecord many = read(6);
  EXPECT_EQ(many.processes[0].metrics.size(), 1U);
  EXPECT_EQ(many.processes[3].metrics.size(), 1U);
  EXPECT_TRUE(many.processes[4].metrics.empty()) << "all of them together";
  EXPECT_TRUE(many.processes[5].lacks_metrics);
  EXPECT_EQ(said(many), 1U) << "for both";
}

TEST_F(HostileRecordTest, ManyShortLinesCountForWhatTheyTake) {
  std::string text;
  for (int i = 0; i < 525'000; ++i) text += "{}\n";
  folder_.write("node_0/metrics.jsonl", text);
  EXPECT_EQ(said(read()), 1U);
}

TEST_F(HostileRecordTest, ALineWithoutEndIsPassedOver) {
  const std::string log = folder_ / "node_0/train.log";
  std::filesystem::resize_file(log, 400U << 20U);
  rusage before{}, after{};
  ::getrusage(RUSAGE_SELF, &before);
  read();
  ::getrusage(RUSAGE_SELF, &after);
  EXPECT_LT(after.ru_maxrss - before.ru_maxrss, 200 << 10) << "KiB";
  std::filesystem::resize_file(log, 0);
  const std::string line = "{\"kind\":\"train\",\"cost\":2}";
  for (const std::size_t bytes : {kLineBytes + 1, kLineBytes * 80}) {
    folder_.write("node_0/metrics.jsonl", std::string(bytes, ' ') + line + "\n" + line + "\n\n" +
                                              line + "\n" + std::string(bytes, 'x'));
    EXPECT_EQ(read().processes[0].metrics.size(), 2U);
  }
  folder_.write("node_0/metrics.jsonl", std::string(kLineBytes - line.size(), ' ') + line);
  EXPECT_EQ(read().processes[0].metrics.size(), 1U) << "the longest, without a newline";
}

TEST_F(HostileRecordTest, APipeOrALinkInTheirPlaceIsNotRead) {
  const std::string metrics = folder_ / "node_0/metrics.jsonl";
  ASSERT_EQ(::mkfifo(metrics.c_str(), 0600), 0);
  EXPECT_TRUE(read().processes[0].metrics.empty()) << "never waited for";
  std::filesystem::remove(metrics);
  std::filesystem::create_symlink(folder_.write("elsewhere", "{\"kind\":\"train\"}\n"), metrics);
  EXPECT_TRUE(read().processes[0].metrics.empty());
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

TEST(StepsOf, AJobThatGoesOnFromAnEarlierPassGoesBackToItsBatches) {
  std::vector<MetricsLine> lines;
  for (const auto& [kind, pass, batch] :
       {std::tuple("train", 0, 10), std::tuple("train", 1, 10), std::tuple("train", 2, 10),
        std::tuple("train", 3, 4), std::tuple("mine", 0, 0), std::tuple("train", 1, 5),
        std::tuple("pass", 1, 10), std::tuple("test", 1, 10), std::tuple("train", 2, 1)}) {
    MetricsLine& line = lines.emplace_back();
    line.kind = kind;
    line.pass = static_cast<std::uint64_t>(pass);
    line.batch = static_cast<std::uint64_t>(batch);
  }
  std::vector<std::uint64_t> steps;
  MetricsTotals totals;
  for (const StepOfLine& at : steps_of(lines)) {
    steps.push_back(at.step);
    totals.add(*at.line);
    EXPECT_EQ(totals.step(), at.step);
  }
  EXPECT_EQ(steps, (std::vector<std::uint64_t>{10, 20, 30, 34, 34, 15, 20, 20, 21}));
}

}  // namespace
}  // namespace paddle::cli
