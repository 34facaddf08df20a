// Lives of one trainer that share their memory.
#include <sys/mman.h>
#include <unistd.h>

#include <sstream>

#include <gtest/gtest.h>

#include "tests/unit/engine/trainer/loop_fixture.h"

namespace paddle::trainer {
namespace {

class LosingClient : public IdleClient {
 public:
  Status announce_busy(std::string_view /*activity*/) override {
    ++tests;
    if (pushed.size() != pushes_before_loss) return {};
    return Error{Errc::kUnreachable, "lost rank 1"};
  }
  std::size_t pushes_before_loss = 0;
  std::size_t tests = 0;
};

class IncarnationsTest : public LoopTest {
 protected:
  void SetUp() override {
    LoopTest::SetUp();
    options_.train.passes = 1;
    options_.train.log_period = options_.train.test_period = 1;
    options_.test_data = options_.train_data;
  }
  // An incarnation that begins behind so many batches, and is lost in the test that follows a push.
  Status live(std::uint64_t batches_done, std::size_t pushes_before_loss) {
    LosingClient client;
    client.at.batches = batches_done;
    client.pushes_before_loss = pushes_before_loss;
    EXPECT_TRUE(client.pull_dense(model_->dense()));
    auto kept = ReplayLog::open(
        {.memory = UniqueFd(::dup(memory_.get())), .empty_tally = model_->empty_tally()},
        model_->dense());
    EXPECT_TRUE(kept);
    options_.kept = kept->get();
    MetricsFile file = *MetricsFile::open(metrics_);
    const Status done = Loop(options_, dictionary_, *model_, client, file).run();
    tests_ = client.tests;
    return done;
  }
  // "train1": each line's kind and batch.
  std::vector<std::string> told() const {
    std::vector<std::string> told;
    std::istringstream lines(test::TemporaryFolder::read(metrics_));
    for (std::string line; std::getline(lines, line);) {
      told.push_back(line.substr(9, line.find('"', 9) - 9) +
                     line.substr(line.find("\"batch\":") + 8, 1));
    }
    return told;
  }

  static constexpr std::size_t kNever = 100;
  const std::vector<std::string> all_{"train1", "test1", "train2", "test2",
                                      "train3", "test3", "pass3",  "test3"};
  std::size_t tests_ = 0;  // of the last incarnation

 private:
  UniqueFd memory_{::memfd_create("lives", 0)};
  std::string metrics_ = folder_ / "metrics.jsonl";
};

TEST_F(IncarnationsTest, LinesOfBatchesThatAreDoneAgainAreToldOnce) {
  ASSERT_FALSE(live(0, 2));
  const Status done = live(0, kNever);
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_EQ(told(), all_);
}

TEST_F(IncarnationsTest, ATestInWhichAProcessWasLostIsDoneByTheNext) {
  ASSERT_FALSE(live(0, 2));
  ASSERT_FALSE(live(2, 0)) << "and lost in it again";
  const Status done = live(2, kNever);
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_EQ(told(), all_);
}

TEST_F(IncarnationsTest, ATestThatWasToldIsNotDoneAgain) {
  ASSERT_FALSE(live(0, 2));
  const Status done = live(1, kNever);
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_EQ(told(), all_);
  EXPECT_EQ(tests_, 3U) << "of batches 2 and 3, and of the pass";
}

}  // namespace
}  // namespace paddle::trainer
