#include "cli/dashboard/live_cluster.h"

#include <future>
#include <latch>
#include <set>

#include <gtest/gtest.h>

#include "tests/support/watched_cluster.h"

namespace paddle::cli {
namespace {

constexpr auto kPatience = std::chrono::seconds(60);  // a test that fails waits for so long

// A LiveCluster over nodes in memory, by the real clock.
struct LiveNodes {
  explicit LiveNodes(std::size_t nodes) : watched(nodes) { connect = watched.fake.context.connect; }
  void begin() {
    context.emplace(Context{.console = watched.fake.console,
                            .clock = clock,
                            .connect = connect,
                            .pause = [](Duration) {},
                            .interrupted = [] { return false; },
                            .unix_seconds = [] { return std::int64_t{0}; },
                            .engine = "",
                            .directory = "/nonexistent",
                            .who = "alice@laptop, pid 12"});
    live.emplace(*context, watched.fake.cluster);
    live->on_change([this] {
      const std::lock_guard lock(mutex);
      ++changes;
      changed.notify_all();
    });
  }
  // Waits until a viewer of the job is sent an event with that text.
  bool sees(const std::string& job, const std::string& name, const std::string& text) {
    const TimePoint end = clock_now() + kPatience;
    while (clock_now() < end) {
      for (const auto& [event, data] : live->since(job, 0).events) {
        if (event == name && data.find(text) != std::string::npos) return true;
      }
      std::unique_lock lock(mutex);
      const int before = changes;
      changed.wait_for(lock, std::chrono::milliseconds(100), [&] { return changes != before; });
    }
    return false;
  }
  int changes_now() {
    const std::lock_guard lock(mutex);
    return changes;
  }
  Result<std::string> change(const std::string& job, const std::string& process, Change change) {
    std::promise<Result<std::string>> done;
    live->change(job, process, change, [&](Result<std::string> text) { done.set_value(text); });
    return done.get_future().get();
  }
  Result<LogPart> log(const std::string& job, const std::string& process) {
    std::promise<Result<LogPart>> done;
    live->log(job, process, {}, [&](Result<LogPart> part) { done.set_value(part); });
    return done.get_future().get();
  }
  void edit(std::size_t node, const std::function<void(remote::FakeNode&)>& change) {
    const std::lock_guard lock(watched.fake.node(node).mutex);
    change(watched.fake.node(node));
  }

  WatchedCluster watched;  // for its nodes
  SteadyClock clock;
  decltype(Context::connect) connect;
  std::mutex mutex;
  std::condition_variable changed;
  int changes = 0;
  std::optional<Context> context;
  std::optional<LiveCluster> live;
};

TEST(LiveCluster, AViewerSeesJobsAsTheyStartAndGo) {
  LiveNodes nodes(1);
  nodes.watched.start(0, "trainer-0");
  nodes.begin();
  EXPECT_TRUE(nodes.sees("j", "job", R"("role": "trainer-0")"));
  nodes.edit(0, [&](remote::FakeNode& node) {
    std::erase_if(node.processes, [](const auto& process) { return process.job == "j"; });
    nodes.watched.start(0, "trainer-0", "later");
  });
  EXPECT_TRUE(nodes.sees("later", "job", R"("job": "later")"))
      << "a new viewer has it read at once";
  EXPECT_TRUE(nodes.sees("later", "cluster", R"("job": "later")"));
  EXPECT_TRUE(nodes.sees("j", "gone", R"({"job": "j"})"));
  EXPECT_NE(nodes.live->metrics(), "");
  EXPECT_EQ(nodes.watched.fake.out.str() + nodes.watched.fake.err.str(), "")
      << "the console belongs to the command";
}

TEST(LiveCluster, ANodeThatHangsDelaysNoOther) {
  LiveNodes nodes(2);
  nodes.watched.start(0, "trainer-0");
  std::latch goes_on(1);
  nodes.connect = [&, inner = nodes.connect](const remote::NodeSpec& spec, bool create) {
    if (spec.name == "n-1") goes_on.wait();
    return inner(spec, create);
  };
  nodes.begin();
  EXPECT_TRUE(nodes.sees("j", "job", R"("role": "trainer-0")"));
  EXPECT_TRUE(nodes.sees("", "cluster", R"("node": "n-1", "state": "connecting")"));
  goes_on.count_down();
  EXPECT_TRUE(nodes.sees("", "cluster", R"("node": "n-1", "state": "ready")"));
}

TEST(LiveCluster, LogsComeFromTheNodes) {
  LiveNodes nodes(1);
  nodes.watched.start(0, "trainer-0");
  nodes.watched.file(0, "jobs/j/node_0/train.log") = "one\ntwo\n";
  nodes.begin();
  ASSERT_TRUE(nodes.sees("", "cluster", R"("job": "j")"));
  const auto part = nodes.log("j", "trainer-0");
  ASSERT_TRUE(part);
  EXPECT_EQ(part->text, "one\ntwo\n");
  EXPECT_EQ(nodes.log("j", "trainer-1").error().code, Errc::kUsage);
  EXPECT_EQ(nodes.log("other", "trainer-0").error().code, Errc::kUsage);
}

// Each answer is followed by the next request at once, as by many viewers of logs.
TEST(LiveCluster, RequestsForLogsDelayNoLook) {
  LiveNodes nodes(1);
  nodes.watched.start(0, "trainer-0");
  nodes.watched.file(0, "jobs/j/node_0/train.log") = "one\n";
  nodes.begin();
  ASSERT_TRUE(nodes.sees("", "cluster", R"("job": "j")"));
  std::atomic<bool> goes_on = true;
  std::atomic<int> answers = 0;
  std::function<void(Result<LogPart>)> again = [&](const Result<LogPart>&) {
    ++answers;
    if (goes_on) nodes.live->log("j", "trainer-0", 0, again);
  };
  for (int i = 0; i < 100; ++i) nodes.live->log("j", "trainer-0", 0, again);
  nodes.edit(0, [&](remote::FakeNode&) { nodes.watched.start(0, "trainer-0", "later"); });
  EXPECT_TRUE(nodes.sees("", "cluster", R"("job": "later")"));
  const int before = answers;
  nodes.edit(0, [&](remote::FakeNode&) { nodes.watched.start(0, "trainer-0", "last"); });
  EXPECT_TRUE(nodes.sees("", "cluster", R"("job": "last")"));
  EXPECT_GT(answers, before) << "nor does a look delay them";
  goes_on = false;
  nodes.live.reset();  // it answers requests
}

TEST(LiveCluster, EveryJobThatIsLookedAtShowsItsRecordOrWhyNot) {
  LiveNodes nodes(1);
  constexpr int kJobs = static_cast<int>(kRecordsMax) + 8;
  const auto name = [](int i) { return fmt::format("j{:02}", i); };
  for (int i = 0; i < kJobs; ++i) nodes.watched.start(0, "trainer-0", name(i));
  nodes.begin();
  const auto count = [&](const std::string& text) {
    std::set<int> jobs;
    for (int i = 0; i < kJobs; ++i) {
      for (const auto& [event, data] : nodes.live->since(name(i), 0).events)
        if (event == "job" && data.find(text) != std::string::npos) jobs.insert(i);
    }
    return jobs;
  };
  const std::string crowded = R"("stalls": ["the dashboard reads the records of 16 jobs at most)";
  const TimePoint end = clock_now() + kPatience;
  std::set<int> with_record;
  while (clock_now() < end && count(crowded).size() < 8) std::this_thread::yield();
  with_record = count(R"("role": "trainer-0")");
  EXPECT_EQ(with_record.size(), kRecordsMax);
  EXPECT_EQ(count(crowded).size(), 8U);
  for (int i = 0; i < 3; ++i) {  // whoever asks last takes no place of another
    const int before = nodes.changes_now();
    while (clock_now() < end && nodes.changes_now() == before) count("");
    EXPECT_EQ(count(R"("role": "trainer-0")"), with_record);
  }
}

TEST(LiveCluster, StopsAJobAsTheCommandDoes) {
  LiveNodes nodes(1);
  nodes.watched.start(0, "trainer-0");
  nodes.begin();
  EXPECT_EQ(nodes.change("other", "", Change::kStop).error().code, Errc::kUsage);
  const auto stopped = nodes.change("j", "", Change::kStop);
  ASSERT_TRUE(stopped) << stopped.error().message;
  EXPECT_EQ(*stopped, "j: 1 process stopped; logs and snapshots stay on the nodes");
  EXPECT_EQ(nodes.watched.fake.node(0).processes[0].stopped_by,
            "paddlectl stop of alice@laptop, pid 12");
  EXPECT_TRUE(nodes.sees("j", "cluster", R"("state": "stopped")"));
}

TEST(LiveCluster, StopsAJobAtOnce) {
  LiveNodes nodes(1);
  nodes.watched.start(0, "trainer-0");
  nodes.watched.fake.node(0).asked_exit = -1;  // it would not save
  nodes.begin();
  ASSERT_TRUE(nodes.change("j", "", Change::kStopNow));
  EXPECT_TRUE(nodes.watched.fake.node(0).processes[0].stop_ordered);
}

TEST(LiveCluster, AStopThatDoesNotReachAllProcessesIsNoSuccess) {
  LiveNodes nodes(1);
  remote::ProcessStatus& status = nodes.watched.start(0, "trainer-0");
  status.trainers = 2;  // no node of the cluster has the other one
  status.progress->batch = 40;
  nodes.begin();
  const auto stopped = nodes.change("j", "", Change::kStopNow);
  ASSERT_FALSE(stopped);
  EXPECT_NE(stopped.error().message.find("trainer-1"), std::string::npos)
      << stopped.error().message;
  EXPECT_TRUE(nodes.watched.fake.node(0).processes[0].stop_ordered);
}

TEST(LiveCluster, RestartsAProcessAsTheCommandDoes) {
  LiveNodes nodes(1);
  nodes.watched.start(0, "trainer-0");
  nodes.watched.fake.node(0).specs["trainer-0"].job = "j";
  nodes.watched.fake.node(0).specs["trainer-0"].name = "trainer-0";
  nodes.begin();
  EXPECT_EQ(nodes.change("j", "trainer-7", Change::kRestart).error().code, Errc::kUsage);
  EXPECT_EQ(nodes.change("j", "", Change::kRestart).error().code, Errc::kUsage);
  // Another paddlectl ends the job.
  nodes.edit(0, [](remote::FakeNode& node) {
    node.claims.push_back({&node, "j", {JobCommand::kStop, "bob@desk, pid 7"}});
  });
  const auto refused = nodes.change("j", "trainer-0", Change::kRestart);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::kFailed);
  EXPECT_NE(refused.error().message.find("bob@desk"), std::string::npos) << refused.error().message;
  nodes.edit(0, [](remote::FakeNode& node) { node.claims.clear(); });
  const auto restarted = nodes.change("j", "trainer-0", Change::kRestart);
  ASSERT_TRUE(restarted) << restarted.error().message;
  EXPECT_TRUE(restarted->starts_with("trainer-0 on ")) << *restarted;
  EXPECT_EQ(nodes.watched.fake.node(0).starts["j/trainer-0"], 1U);
}

TEST(LiveCluster, ItsEndAnswersWhoeverWaits) {
  LiveNodes nodes(1);
  nodes.watched.start(0, "trainer-0");
  nodes.watched.fake.node(0).asked_exit = -1;  // the stop waits for it
  nodes.begin();
  ASSERT_TRUE(nodes.sees("", "cluster", R"("job": "j")"));
  std::promise<Result<std::string>> done;
  std::atomic<int> logs = 0;
  nodes.live->change("j", "", Change::kStop, [&](auto text) { done.set_value(text); });
  for (int i = 0; i < 50; ++i) nodes.live->log("j", "trainer-0", {}, [&](auto) { ++logs; });
  nodes.live.reset();
  EXPECT_EQ(done.get_future().get().error().code, Errc::kInterrupted);
  EXPECT_EQ(logs, 50);
}

}  // namespace
}  // namespace paddle::cli
