// Ranks of a group on machines of their own, which are network namespaces here, when the link
// between two of them is cut and nothing says so.
#include <unistd.h>

#include <filesystem>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/result.h"
#include "tests/e2e/local_training_job.h"

namespace paddle::test {
namespace {

namespace fs = std::filesystem;

constexpr int kRanks = 4;
constexpr const char* kIp = "/usr/sbin/ip";
constexpr const char* kNobody = "02:00:00:00:00:99";  // a link address that no machine has
// A machine that answers nothing is lost after 1.5 s; the rest is for a busy test machine.
constexpr std::chrono::seconds kKnownWithin{30};

class CutLink : public testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "only root can make network namespaces";
    if (!fs::exists(kIp)) GTEST_SKIP() << "no " << kIp;
    if (!ip({"netns", "add", space(kRanks)})) GTEST_SKIP() << "no network namespace here";
    ASSERT_TRUE(ip({"-n", space(kRanks), "link", "add", "hub", "type", "bridge"}));
    ASSERT_TRUE(ip({"-n", space(kRanks), "link", "set", "hub", "up"}));
    for (int rank = 0; rank < kRanks; ++rank) {
      const std::string end = fmt::format("to{}", rank);
      ASSERT_TRUE(ip({"netns", "add", space(rank)}));
      ASSERT_TRUE(ip({"-n", space(kRanks), "link", "add", end, "type", "veth", "peer", "name",
                      "eth", "netns", space(rank)}));
      ASSERT_TRUE(ip({"-n", space(kRanks), "link", "set", end, "master", "hub", "up"}));
      ASSERT_TRUE(ip({"-n", space(rank), "addr", "add", address(rank) + "/24", "dev", "eth"}));
      for (const char* const link : {"lo", "eth"})
        ASSERT_TRUE(ip({"-n", space(rank), "link", "set", link, "up"}));
    }
  }
  void TearDown() override {
    trainers_.clear();  // ends them
    for (int i = 0; i <= kRanks; ++i) {
      if (fs::exists("/run/netns/" + space(i))) ip({"netns", "del", space(i)});
    }
  }

  void start_trainers(int lanes) {
    std::string endpoints;
    for (int rank = 0; rank < kRanks; ++rank)
      endpoints += fmt::format("{}{}", rank == 0 ? "" : ",", endpoint(rank));
    const std::string key = job_.folder().write("job.key", std::string(32, 'k'));
    fs::permissions(key, fs::perms::owner_read | fs::perms::owner_write);
    for (int rank = 0; rank < kRanks; ++rank) {
      trainers_.emplace_back(
          std::vector<std::string>{
              kIp, "netns", "exec", space(rank), PADDLE_PROGRAM, "train",
              "--config=" + job_.folder() / "job.toml", "--set=strategy.dense=collective",
              fmt::format("--set=strategy.lanes={}", lanes), "--num_passes=100000",
              "--log_period=1", "--pservers=", "--trainers=" + endpoints,
              fmt::format("--trainer_id={}", rank),
              fmt::format("--num_gradient_servers={}", kRanks), "--key_file=" + key},
          job_.folder() / fmt::format("cut-{}.log", rank));
    }
  }
  // From now on nothing of what one rank's machine sends reaches the other's.
  void drop(int sender, int receiver) {
    ASSERT_TRUE(ip({"-n", space(sender), "neigh", "replace", address(receiver), "lladdr", kNobody,
                    "dev", "eth", "nud", "permanent"}));
  }

  bool ip(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), kIp);
    Process process(arguments, job_.folder() / "ip.log");
    return process.wait() == 0;
  }
  static std::string space(int rank) { return fmt::format("paddle-cut-{}-{}", ::getpid(), rank); }
  static std::string address(int rank) { return fmt::format("10.78.0.{}", rank + 1); }
  static std::string endpoint(int rank) { return address(rank) + ":7164"; }

  Job job_;
  std::vector<Process> trainers_;
};

INSTANTIATE_TEST_SUITE_P(Lanes, CutLink, testing::Values(1, 4));

TEST_P(CutLink, BetweenTwoRanksIsNamedByAllWithBothItsEnds) {
  job_.write_dense_ngram({200, 200, 200, 200});
  start_trainers(GetParam());
  ASSERT_TRUE(trainers_[0].prints("Pass=0 Batch=5 ", std::chrono::seconds(60)))
      << trainers_[0].output();
  drop(1, 2);
  drop(2, 1);
  const TimePoint cut = std::chrono::steady_clock::now();
  for (Process& trainer : trainers_) {
    EXPECT_EQ(trainer.wait(), static_cast<int>(Errc::kUnreachable)) << trainer.output();
    EXPECT_LT(std::chrono::steady_clock::now() - cut, kKnownWithin);
    const std::string said = trainer.output();
    const std::size_t begin = said.find("the group has ended: lost rank ");
    ASSERT_NE(begin, std::string::npos) << said;
    const std::string cause = said.substr(begin, said.find('\n', begin) - begin);
    for (const int end : {1, 2}) {
      const std::string name = fmt::format("rank {} ({})", end, endpoint(end));
      EXPECT_NE(cause.find(name), std::string::npos) << cause;
    }
    EXPECT_EQ(said.find("the group has ended", begin + 1), std::string::npos) << said;
  }
}

}  // namespace
}  // namespace paddle::test
