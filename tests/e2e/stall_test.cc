// Processes that hang (SIGSTOP stands for a dead file server, swapping, a debugger), and what says
// so.
#include <algorithm>
#include <chrono>
#include <stop_token>
#include <thread>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "tests/e2e/cli_local_test_cluster.h"
#include "tests/support/terminal_process.h"

namespace paddle::test {
namespace {

class StallTest : public testing::Test {
 protected:
  void SetUp() override {
    cluster.copy_template("quick_start");
    ASSERT_EQ(cluster.prepare("quick_start", {"--shards", "2"}, labelled_texts(4000)).code, 0);
    ASSERT_EQ(cluster.run({"up", "cluster.toml"}).code, 0);
  }
  Process start_endless() {
    Process train =
        cluster.start({"train", "--trainers", "2", "--pservers", "2", "--name", "job", "--set",
                       "train.passes=1000000", "--set", "train.saving_period=0", "--set",
                       "train.batch_size=4", "quick_start"});
    EXPECT_TRUE(train.prints("/1000000  ")) << train.output();
    return train;
  }
  void stop_process(const std::string& argument) {
    hung_ = cluster.find_engine(argument);
    ASSERT_GT(hung_, 0);
    ASSERT_EQ(::kill(hung_, SIGSTOP), 0);
  }
  void let_go_on() const { ::kill(hung_, SIGCONT); }
  // Waits until one output of the command has all the texts, and returns it.
  std::string comes_to_say(const std::vector<std::string>& command,
                           const std::vector<std::string>& texts) {
    Outcome outcome;
    const auto is_said = [&](const std::string& text) { return outcome.says(text); };
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(150);
    while (std::chrono::steady_clock::now() < end) {
      outcome = cluster.run(command);
      if (std::ranges::all_of(texts, is_said)) return outcome.output;
      std::this_thread::sleep_for(std::chrono::milliseconds(500));
    }
    ADD_FAILURE() << fmt::format("never said {}:\n{}", texts, outcome.output);
    return outcome.output;
  }
  void TearDown() override {
    if (hung_ > 0) let_go_on();
    EXPECT_EQ(cluster.run({"teardown", "--yes", "--discard"}).code, 0);
    EXPECT_TRUE(cluster.nothing_left());
  }

  LocalCluster cluster{2};
  int hung_ = 0;
};

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// A process of any kind hangs: the job goes on with its next incarnation, and says why.
TEST_F(StallTest, AProcessThatHangsIsKilledAndStartedAgain) {
  Process train =
      cluster.start({"train", "--trainers", "2", "--pservers", "2", "--name", "job", "--restarts",
                     "5", "--stall-restarts-after", "3", "--set", "train.passes=1000000", "--set",
                     "train.batch_size=4", "quick_start"});
  ASSERT_TRUE(train.prints("/1000000  ")) << train.output();
  const std::pair<const char*, std::string> hangs[] = {{"--trainer_id=1", "trainer-1"},
                                                       {"--trainer_id=0", "trainer-0"},
                                                       {"--pserver_id=1", "pserver-1"}};
  for (const auto& [argument, name] : hangs) {
    stop_process(argument);
    const int stopped = hung_;
    EXPECT_TRUE(
        train.prints(name + " on n-" + (name[8] == '1' ? "1" : "0") + " hung (no response for "))
        << train.output();
    EXPECT_NE(::kill(stopped, 0), 0) << "it is gone";
    hung_ = 0;
    comes_to_say({"status"}, {name + "  running (start 2)"});
  }
}

// With no restart left, the end of the job tells why.
TEST_F(StallTest, TheLastProcessThatHungIsSaidToHaveHung) {
  Process train =
      cluster.start({"train", "--trainers", "2", "--pservers", "2", "--name", "job", "--restarts",
                     "1", "--stall-restarts-after", "3", "--set", "train.passes=1000000", "--set",
                     "train.batch_size=4", "quick_start"});
  ASSERT_TRUE(train.prints("/1000000  ")) << train.output();
  stop_process("--trainer_id=1");
  EXPECT_TRUE(train.prints("trainer-1 on n-1 hung (no response for ")) << train.output();
  hung_ = 0;
  comes_to_say({"status"}, {"running (start 2)"});
  stop_process("--trainer_id=1");
  EXPECT_EQ(train.wait(), 1) << train.output();
  hung_ = 0;
  EXPECT_TRUE(contains(train.output(), "error: trainer-1 on n-1 hung (no response for "))
      << train.output();
  EXPECT_TRUE(cluster.run({"status"}).says("and was killed"));
  EXPECT_TRUE(cluster.run({"status", "--json"}).says("\"hang\": \"no response for "));
  EXPECT_TRUE(contains(TemporaryFolder::read(cluster.folder() / "output/job/report.html"),
                       "hung (no response for "));
}

// Long enough to be dead to the others, too short to be killed: it finds its place taken away, and
// takes it again.
TEST_F(StallTest, ATrainerWhoseHeartbeatsStoppedComesBackAloneWhenItGoesOn) {
  Process train = cluster.start({"train", "--trainers", "2", "--pservers", "2", "--name", "job",
                                 "--restarts", "5", "--set", "train.passes=1000000", "--set",
                                 "train.batch_size=4", "quick_start"});
  ASSERT_TRUE(train.prints("/1000000  ")) << train.output();
  const int other = cluster.find_engine("--trainer_id=0");
  const int cut_off = cluster.find_engine("--trainer_id=1");
  stop_process("--trainer_id=1");
  comes_to_say({"logs", "--role", "pserver-0"}, {"is dropped: no heartbeat of trainer 1 for 3."});
  let_go_on();
  hung_ = 0;
  comes_to_say({"logs", "--role", "trainer-1"}, {"joining the job again", "continuing in pass "});
  EXPECT_EQ(cluster.find_engine("--trainer_id=0"), other);
  EXPECT_EQ(cluster.find_engine("--trainer_id=1"), cut_off) << "nothing is started again";
}

// From before the first record of the test is read, which may take as long as the rest.
TEST_F(StallTest, ATrainerThatReadsItsTestSlowlyIsTestingAndNotHung) {
  // Longer than the stall limit, and until this test has seen it.
  cluster.folder().write("quick_start/slow.sh",
                         fmt::format("cat > \"$$.txt\"\n"
                                     "if cmp -s \"$$.txt\" data/test.txt; then\n"
                                     "  sleep 6; until [ -e {} ]; do sleep 0.1; done\n"
                                     "fi\n"
                                     "cat \"$$.txt\"\n",
                                     cluster.folder() / "seen"));
  Process train = cluster.start({"train", "--trainers", "2", "--pservers", "1", "--name", "job",
                                 "--restarts", "1", "--stall-restarts-after", "3", "--set",
                                 "data.pipe_command=[\"sh\",\"slow.sh\"]", "--set",
                                 "train.passes=1", "quick_start"});
  const std::string status = comes_to_say({"status"}, {"testing"});
  EXPECT_FALSE(contains(status, "held-out")) << "it reads: " << status;
  cluster.folder().write("seen", "");
  EXPECT_EQ(train.wait(), 0) << train.output();
  EXPECT_FALSE(contains(train.output(), "hung")) << train.output();
}

TEST_F(StallTest, ATrainerThatHangsIsNamedEverywhereAndStopIsBounded) {
  Process train = start_endless();
  stop_process("--trainer_id=1");
  EXPECT_TRUE(train.prints("trainer-1 on n-1: no response for ")) << train.output();
  comes_to_say({"status"}, {"trainer-1 on n-1", "no response for "});
  const std::string status =
      comes_to_say({"status"}, {"trainer-1  stalled ", "trainer-0  waits for trainer-1  "});
  EXPECT_TRUE(contains(status, "trainer-1 on n-1 is stalled: no progress for ")) << status;
  EXPECT_TRUE(contains(status, "\ntrainer-0 waits for trainer-1 (")) << status;
  EXPECT_TRUE(contains(status, " %  cost ")) << "nothing flows, so there is no rate: " << status;
  EXPECT_TRUE(train.prints("trainer-1 on n-1 is stalled: no progress for ")) << train.output();
  EXPECT_TRUE(train.prints("trainer-0 waits for trainer-1 (")) << train.output();
  const Outcome check = cluster.run({"check"});
  EXPECT_EQ(check.code, 1) << check.output;
  EXPECT_TRUE(check.says("! job job: trainer-1 on n-1 is stalled")) << check.output;
  EXPECT_TRUE(cluster.run({"report", "job"}).code == 0);
  EXPECT_TRUE(contains(TemporaryFolder::read(cluster.folder() / "output/job/report.html"),
                       "\"state\": \"stalled "));
  Process stop = cluster.start({"stop"});
  EXPECT_TRUE(
      stop.prints("waiting for trainer-1, which is stalled; paddlectl stop --now job ends it"))
      << stop.output();
  let_go_on();
  EXPECT_EQ(stop.wait(), 0) << stop.output();
  EXPECT_EQ(train.wait(), 75) << train.output();
}

TEST_F(StallTest, APserverThatHangsIsTheCulpritOfAllTrainers) {
  Process train = start_endless();
  stop_process("--pserver_id=1");
  comes_to_say({"status"}, {"pserver-1 on n-1", "no response for "});
  comes_to_say({"status"}, {"pserver-1  stalled ", "trainer-0  waits for pserver-1",
                            "trainer-1  waits for pserver-1"});
  EXPECT_TRUE(train.prints("pserver-1 on n-1 is stalled: no progress for ")) << train.output();
  let_go_on();
  EXPECT_TRUE(train.prints("pserver-1 is no longer stalled")) << train.output();
  EXPECT_EQ(cluster.run({"stop", "--now"}).code, 0);
  EXPECT_TRUE(train.wait() == 130) << train.output();
  EXPECT_TRUE(contains(train.output(), "job was ended by paddlectl stop --now")) << train.output();
  EXPECT_FALSE(contains(train.output(), "last lines")) << train.output();
}

TEST_F(StallTest, AJobWhoseTestHangsWaitsForTrainer0) {
  std::string tests = TemporaryFolder::read(cluster.folder() / "quick_start/data/test.txt");
  for (int doubled = 0; doubled < 9; ++doubled) tests += tests;
  cluster.folder().write("quick_start/data/test.txt", tests);
  Process train = start_endless();
  const std::string busy = comes_to_say({"status"}, {"trainer-0  testing"});
  EXPECT_FALSE(contains(busy, "stalled")) << busy;
  stop_process("--trainer_id=0");
  comes_to_say({"status"}, {"trainer-0  stalled "});
  EXPECT_TRUE(train.prints("trainer-0 on n-0 is stalled: no progress for ")) << train.output();
  EXPECT_EQ(cluster.run({"stop", "--now"}).code, 0);
  EXPECT_EQ(train.wait(), 130) << train.output();
}

TEST_F(StallTest, ATerminalShowsOneLineThatFitsIt) {
  TerminalProcess train({"/usr/bin/env", "-C", cluster.folder().path(), PADDLECTL_PROGRAM, "train",
                         "--trainers", "2", "--pservers", "1", "--name", "job", "--set",
                         "train.passes=1000000", "--set", "train.saving_period=0", "quick_start"},
                        {"PATH=/usr/bin:/bin", "LANG=C.UTF-8", "TERM=xterm"});
  ASSERT_TRUE(train.shows("\x1b[K\x1b[?7lpass ")) << train.shown();
  ASSERT_TRUE(train.shows("\xe2\x96")) << "a bar of the sparkline: " << train.shown();
  EXPECT_EQ(cluster.run({"stop"}).code, 0);
  EXPECT_EQ(train.wait(), 75) << train.shown();
}

}  // namespace
}  // namespace paddle::test
