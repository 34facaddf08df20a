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
    if (pushed.size() != pushes_before_loss) return {};
    return Error{Errc::kUnreachable, "lost rank 1"};
  }
  std::size_t pushes_before_loss = 0;
};

// A life is lost at its second test, and the next one begins before the first.
TEST_F(LoopTest, LinesOfBatchesThatAreDoneAgainAreToldOnce) {
  const UniqueFd memory(::memfd_create("lives", 0));
  const std::string metrics = folder_ / "metrics.jsonl";
  options_.train.passes = 1;
  options_.train.log_period = options_.train.test_period = 1;
  options_.test_data = options_.train_data;
  const auto live = [&](std::size_t pushes_before_loss) {
    LosingClient client;
    client.pushes_before_loss = pushes_before_loss;
    EXPECT_TRUE(client.pull_dense(model_->dense()));
    auto kept = KeptPush::open(
        {.memory = UniqueFd(::dup(memory.get())), .empty_tally = model_->empty_tally()},
        model_->dense());
    EXPECT_TRUE(kept);
    options_.kept = kept->get();
    MetricsFile file = *MetricsFile::open(metrics);
    return Loop(options_, dictionary_, *model_, client, file).run();
  };
  ASSERT_FALSE(live(2));
  const Status done = live(100);
  ASSERT_TRUE(done) << done.error().message;
  std::vector<std::string> told;
  std::istringstream lines(test::TemporaryFolder::read(metrics));
  for (std::string line; std::getline(lines, line);) {
    told.push_back(line.substr(9, line.find('"', 9) - 9) +
                   line.substr(line.find("\"batch\":") + 8, 1));
  }
  EXPECT_EQ(told, (std::vector<std::string>{"train1", "test1", "train2", "test2", "train3", "test3",
                                            "pass3", "test3"}));
}

}  // namespace
}  // namespace paddle::trainer
