// A job whose parameters are about to become infinite: no such value is kept anywhere, the cause is
// named, and the job goes on from its last snapshot with a lower rate.
#include <filesystem>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/e2e/local_training_job.h"
#include "tests/support/free_ports.h"

namespace paddle::test {
namespace {

// The rate makes finite gradients leave no finite value.
constexpr const char* kRuin = "--set=optimizer.learning_rate=1e38";

class NotFiniteJob : public testing::TestWithParam<const char*> {};

TEST_P(NotFiniteJob, AStepIsRefusedByNameAndTheSnapshotStays) {
  Job job;
  job.write_ngram(2, 200);
  const std::string strategy = GetParam();
  std::vector<std::string> flags{"--set=optimizer.method=sgd", "--set=strategy.dense=" + strategy,
                                 "--set=strategy.sparse=" + strategy};
  const Shape shape{.trainers = 2, .pservers = 2};
  flags.emplace_back("--num_passes=1");
  ASSERT_TRUE(job.run("job", shape, flags));
  const auto before = job.snapshot("job", 0);
  ASSERT_FALSE(before.empty());

  flags.back() = "--num_passes=3";
  flags.emplace_back("--resume");
  auto ruined = flags;
  ruined.emplace_back(kRuin);
  const int port = free_ports(4);
  std::vector<Process> pservers, trainers;
  for (int i = 0; i < 2; ++i) pservers.push_back(job.start_pserver("job", shape, i, port));
  for (int i = 0; i < 2; ++i) trainers.push_back(job.start_trainer("job", shape, i, port, ruined));
  std::string said;
  for (Process& trainer : trainers) {
    const auto code = trainer.wait();
    EXPECT_TRUE(code && *code != 0) << "it trained on:\n" << trainer.output();
    said += trainer.output();
  }
  for (Process& pserver : pservers) EXPECT_TRUE(pserver.wait()) << pserver.output();
  EXPECT_NE(said.find("not finite"), std::string::npos) << said;
  const bool names_one =
      said.find("'_output.w") != std::string::npos || said.find("'_hidden.w") != std::string::npos;
  EXPECT_TRUE(names_one) << "a parameter is named:\n" << said;
  EXPECT_NE(said.find("trainer"), std::string::npos) << said;
  const bool has_way_out = said.find("lower the learning rate") != std::string::npos ||
                           said.find("lower optimizer.learning_rate") != std::string::npos;
  EXPECT_TRUE(has_way_out) << said;
  EXPECT_EQ(job.snapshot("job", 0), before);
  EXPECT_FALSE(std::filesystem::exists(job.save_dir("job") + "/pass-00001"))
      << "of that it saves none";

  // Every value is finite, or it could not be read.
  EXPECT_TRUE(job.run("job", shape, flags)) << job.output("job", 0);
  EXPECT_FALSE(job.snapshot("job", 2).empty());
}

INSTANTIATE_TEST_SUITE_P(Strategies, NotFiniteJob, testing::Values("sync", "async"));

// One bad record among those of trainer 1: all pservers leave out that batch and no other, so the
// result is that of a job without it.
class LeftOut : public testing::TestWithParam<const char*> {};

TEST_P(LeftOut, ABatchThatIsNotFiniteIsAppliedOnNoPserver) {
  constexpr int kBatch = 4;
  const std::string strategy = GetParam();
  const Shape shape{.trainers = 2, .pservers = 2, .ports_num = 2};
  Job job;
  const auto write = [&](const std::string& of_batch) {
    std::string good;
    for (int i = 0; i < 5 * kBatch; ++i) good += fmt::format("{},{}\n", i % 7, 2 * (i % 7));
    job.folder().write("data/train.csv-00000", good);
    job.folder().write("data/train.csv-00001", good + of_batch + good);
    job.folder().write("job.toml", R"([data]
train = "data/train.csv-*"
format = "csv"
columns = ["area", "price"]
[[data.slot]]
name = "area"
type = "float"
[[data.slot]]
name = "price"
type = "float"
[[layer]]
name = "hidden"
type = "fc"
input = ["area"]
size = 8
[[layer]]
name = "estimate"
type = "fc"
input = ["hidden"]
size = 1
[[layer]]
name = "cost"
type = "squared_error"
input = ["estimate"]
label = "price"
[optimizer]
method = "adam"
learning_rate = 0.01
[train]
passes = 2
shuffle_records = 0
batch_size = )" + fmt::format("{}\n", kBatch));
  };
  const std::vector<std::string> flags{"--set=train.on_not_finite=skip",
                                       "--set=strategy.dense=" + strategy};
  write("1,2\n3e38,3e38\n1,2\n1,2\n");
  ASSERT_TRUE(job.run("job", shape, flags)) << job.output("job", 1);
  const std::string log = job.output("job", 1);
  EXPECT_NE(log.find("trainer 1, pass 1 (pass-00000), batch 6: the gradient of '"),
            std::string::npos)
      << log;
  EXPECT_NE(log.find("trainer 1, pass 2 (pass-00001), batch 6: the gradient of '"),
            std::string::npos)
      << log;
  EXPECT_EQ(job.output("job", 0).find("left out"), std::string::npos);
  EXPECT_NE(job.metrics("job", 0).find("\"total_samples\":60,"), std::string::npos)
      << "20 and 40 of 64: " << job.metrics("job", 0);
  job.snapshot("job", 1);

  Process stops = job.start_local("stopped", {"--set=strategy.dense=" + strategy});
  const auto code = stops.wait();
  EXPECT_TRUE(code && *code != 0) << "unless asked, it ends the job: " << stops.output();
}

INSTANTIATE_TEST_SUITE_P(Strategies, LeftOut,
                         testing::Values("sync", "async", "half_async", "geo"));

}  // namespace
}  // namespace paddle::test
