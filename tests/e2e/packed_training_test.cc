// Trainers that send dense gradients and values as bfloat16, as real processes on loopback: what
// they learn, with uneven data, beside tables on pservers, and after a loss.
#include <fstream>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/result.h"
#include "tests/e2e/local_training_job.h"

namespace paddle::test {
namespace {

constexpr std::chrono::seconds kPatience{240};
constexpr Shape kGroup{.trainers = 3, .pservers = 0};
constexpr Shape kHybrid{.trainers = 3, .pservers = 2, .ports_num = 0, .ports_num_for_sparse = 2};
const std::vector<std::string> kPacked = with(kThreePasses, {"--set=strategy.wire=bf16"});

// The cost of each pass over the data that is held out, in the log of trainer 0.
std::vector<double> test_costs(const std::string& log) {
  std::vector<double> costs;
  const std::string before = " Test samples=";
  for (std::size_t at = log.find(before); at != std::string::npos; at = log.find(before, at)) {
    at = log.find("cost=", at) + 5;
    costs.push_back(std::stod(log.substr(at)));
  }
  return costs;
}

// The second trainer has no file. The network is too wide to be sent whole, in float32.
class Packed : public testing::TestWithParam<Shape> {
 protected:
  Packed() {
    if (GetParam().pservers == 0) {
      job_.write_dense_ngram({70, 0, 25});
    } else {
      job_.write_ngram(2, 40);
    }
    job_.widen_ngram(512);
  }
  Job job_;
};

TEST_P(Packed, LearnsWhatFloat32LearnsAndTheSameInEveryRun) {
  ASSERT_TRUE(job_.run("float32", GetParam(), kThreePasses));
  ASSERT_TRUE(job_.run("once", GetParam(), kPacked));
  ASSERT_TRUE(job_.run("again", GetParam(), kPacked));
  for (const int pass : {0, 1, 2}) {
    EXPECT_TRUE(job_.values("once", pass) == job_.values("again", pass)) << pass;
    EXPECT_FALSE(job_.values("once", pass) == job_.values("float32", pass)) << pass;
  }
  const auto expected = test_costs(job_.output("float32", 0));
  const auto costs = test_costs(job_.output("once", 0));
  ASSERT_EQ(costs.size(), expected.size());
  ASSERT_FALSE(costs.empty());
  for (std::size_t i = 0; i < costs.size(); ++i) {
    EXPECT_NEAR(costs[i], expected[i], 0.01 * expected[i]);
  }
}

TEST_P(Packed, AKilledJobGoesOnWithTheSameBits) {
  ASSERT_TRUE(job_.run("whole", GetParam(), kPacked));
  Job::Running all = job_.start("lost", GetParam(), kPacked);
  ASSERT_TRUE(all.trainers[0].prints("Pass=1 Batch=2 ", kPatience)) << all.trainers[0].output();
  all.trainers[1].signal(SIGKILL);
  for (const std::size_t id : {0U, 2U}) {
    EXPECT_EQ(all.trainers[id].wait(), static_cast<int>(Errc::kUnreachable))
        << all.trainers[id].output();
  }
  all.trainers[1].wait();
  for (Process& pserver : all.pservers) pserver.wait();
  ASSERT_TRUE(job_.run("lost", GetParam(), with(kPacked, {"--resume"})));
  EXPECT_TRUE(job_.values("lost", 2) == job_.values("whole", 2));
}

TEST_P(Packed, AStoppedJobGoesOnInFloat32AndBack) {
  for (const bool is_packed_first : {true, false}) {
    const std::string name = is_packed_first ? "to" : "back";
    Job::Running all = job_.start(name, GetParam(), is_packed_first ? kPacked : kThreePasses);
    ASSERT_TRUE(all.trainers[0].prints("Pass=1 Batch=2 ", kPatience)) << all.trainers[0].output();
    all.trainers[2].signal(SIGTERM);
    for (Process& trainer : all.trainers) {
      EXPECT_EQ(trainer.wait(), static_cast<int>(Errc::kResumable)) << trainer.output();
    }
    for (Process& pserver : all.pservers) EXPECT_EQ(pserver.wait(), 0) << pserver.output();
    ASSERT_TRUE(
        job_.run(name, GetParam(), with(is_packed_first ? kThreePasses : kPacked, {"--resume"})));
  }
}

// The third trainer has half as much as the others.
TEST_P(Packed, PassesMayEndOtherwise) {
  if (GetParam().pservers == 0) {
    job_.write_dense_ngram({40, 40, 40});
  } else {
    job_.write_ngram(3, 40);
  }
  job_.widen_ngram(512);
  const std::string file = job_.folder() / "data/train.txt-00002";
  const std::string text = TemporaryFolder::read(file);
  std::ofstream(file) << text.substr(0, text.find('\n', text.size() / 2) + 1);
  for (const char* const uneven : {"drop", "pad"}) {
    const auto flags = with(kPacked, {fmt::format("--set=strategy.uneven={}", uneven)});
    const std::string once = uneven, again = once + "-again";
    ASSERT_TRUE(job_.run(once, GetParam(), flags)) << uneven;
    ASSERT_TRUE(job_.run(again, GetParam(), flags)) << uneven;
    EXPECT_TRUE(job_.values(once, 2) == job_.values(again, 2)) << uneven;
  }
  ASSERT_TRUE(job_.run("join", GetParam(), kPacked));
  EXPECT_FALSE(job_.values("drop", 2) == job_.values("join", 2));
  EXPECT_FALSE(job_.values("pad", 2) == job_.values("join", 2));
}

INSTANTIATE_TEST_SUITE_P(Shapes, Packed, testing::Values(kGroup, kHybrid), [](const auto& shape) {
  return shape.param.pservers == 0 ? "collective" : "hybrid";
});

}  // namespace
}  // namespace paddle::test
