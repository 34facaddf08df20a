// Ends for lack of memory, in a real memory group of the kernel.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <thread>

#include <fmt/format.h>

#include "tests/unit/remote/client/agent_fixture.h"

namespace paddle::remote {
namespace {

constexpr const char* kHierarchy = "/sys/fs/cgroup/memory";

// A group (cgroup v1) with little memory, which ends with the variable.
class MemoryGroup {
 public:
  explicit MemoryGroup(std::uint64_t bytes)
      : path_(fmt::format("{}/paddle-test-{}", kHierarchy, ::getpid())) {
    // Written when root runs this and the kernel has such groups.
    is_made_ = ::mkdir(path_.c_str(), 0700) == 0;
    write_file(path_ + "/memory.limit_in_bytes", std::to_string(bytes));
    is_made_ = is_made_ && std::atoll(file_content(path_ + "/memory.limit_in_bytes").c_str()) ==
                               static_cast<long long>(bytes);
  }
  ~MemoryGroup() {
    const TimePoint end = SteadyClock().now() + std::chrono::seconds(20);
    while (is_made_ && ::rmdir(path_.c_str()) != 0 && SteadyClock().now() < end) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  }
  MemoryGroup(const MemoryGroup&) = delete;
  MemoryGroup& operator=(const MemoryGroup&) = delete;

  bool is_made() const { return is_made_; }
  // Programs started until leave() stay in the group.
  void enter() const { write_file(members(), std::to_string(::getpid())); }
  std::string members() const { return path_ + "/cgroup.procs"; }
  static void leave() {
    write_file(std::string(kHierarchy) + "/cgroup.procs", std::to_string(::getpid()));
  }

 private:
  std::string path_;
  bool is_made_ = false;
};

TEST_F(AgentTest, AProcessThatTheKernelKillsForMemoryIsToldFromOneThatIsKilled) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizer needs more memory than the group has";
#endif
  constexpr std::uint64_t kLimit = 64U << 20U;
  const MemoryGroup group(kLimit);
  if (!group.is_made()) GTEST_SKIP() << "no memory group (cgroup v1) can be made here";
  group.enter();
  const auto agent = connect_agent();
  MemoryGroup::leave();
  // The first incarnation is killed by someone, the others eat all memory.
  push_script(*agent, "eater",
              "echo incarnation $1; [ $1 -gt 1 ] || kill -9 $$; exec tail /dev/zero");
  ProcessSpec spec = script("eater", "p");
  spec.arguments = {"{incarnation}"};
  spec.restarts = 2;
  ASSERT_TRUE(agent->start(spec));
  const ProcessStatus end = wait_end(*agent, "job-1", "p");
  EXPECT_EQ(end.state, ProcessState::kKilled);
  EXPECT_EQ(end.signal, SIGKILL);
  EXPECT_GT(end.out_of_memory_bytes, kLimit / 4);
  EXPECT_LT(end.out_of_memory_bytes, 2 * kLimit);
  ASSERT_EQ(end.restarts.size(), 2U);
  EXPECT_EQ(end.restarts[0].out_of_memory_bytes, 0U) << "a signal of someone's";
  EXPECT_GT(end.restarts[1].out_of_memory_bytes, kLimit / 4);
  const std::string log = wait_log(*agent, spec.log, "incarnation 3\n");
  EXPECT_NE(log.find("paddlectl: killed by signal 9; it is started again\n"), std::string::npos);
  EXPECT_NE(log.find("paddlectl: killed by the kernel: out of memory; it is started again\n"),
            std::string::npos)
      << log;

  // One that something sorts into its group when it starts, as in a batch system.
  push_script(*agent, "moved", "echo $$ > " + group.members() + " && exec tail /dev/zero");
  ASSERT_TRUE(connect_agent()->start(script("moved", "q"))) << "by an agent outside of it";
  EXPECT_GT(wait_end(*agent, "job-1", "q").out_of_memory_bytes, kLimit / 4);
}

TEST_F(AgentTest, WithoutMemoryAProcessIsEndedBeforeItsSupervisor) {
  const auto agent = connect_agent();
  push_script(*agent, "score", "cat /proc/self/oom_score_adj; cat /proc/$PPID/oom_score_adj");
  ASSERT_TRUE(agent->start(script("score", "p")));
  EXPECT_EQ(wait_end(*agent, "job-1", "p").exit_code, 0);
  const int own = std::atoi(file_content("/proc/self/oom_score_adj").c_str());
  const std::string log = agent->read_file(script("score", "p").log, 0, 100)->data;
  EXPECT_EQ(log, fmt::format("{}\n{}\n", std::min(own + 200, 1000), own));
}

}  // namespace
}  // namespace paddle::remote
