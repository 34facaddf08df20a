#include "engine/trainer/loop.h"

#include <gtest/gtest.h>

#include "tests/support/temporary_folder.h"

namespace paddle::trainer {
namespace {

constexpr const char* kJob = R"(
[data]
train = "train.csv"
format = "csv"
columns = ["area", "price"]
[[data.slot]]
name = "area"
type = "float"
[[data.slot]]
name = "price"
type = "float"
[[layer]]
name = "estimate"
type = "fc"
input = ["area"]
size = 1
[[layer]]
name = "cost"
type = "squared_error"
input = ["estimate"]
label = "price"
[train]
passes = 2
batch_size = 1
)";

// Pservers whose values stay zero.
class IdleClient final : public client::ParameterClient {
 public:
  Status ready() override { return {}; }
  client::JobProgress progress() const override { return {}; }
  Status pull_dense(std::span<client::DenseParameter> parameters) override {
    for (client::DenseParameter& one : parameters) one.value.assign(1, 0);
    return {};
  }
  Status pull_rows(std::span<client::SparseRows>) override { return {}; }
  Status pull_averages(std::span<client::DenseParameter>, std::span<client::SparseRows>) override {
    return {};
  }
  Status push(std::uint64_t, double, std::span<client::DenseParameter>,
              std::span<client::SparseRows>) override {
    return {};
  }
  Status repeat_push(std::uint64_t, std::uint64_t, double, std::span<client::DenseParameter>,
                     std::span<client::SparseRows>) override {
    return {};
  }
  void repeat_pass_end() override {}
  Result<client::PassTotals> end_pass(const Tally& tally, client::PassEnd) override {
    client::PassTotals totals;
    totals.tally = tally;
    return totals;
  }
  Status announce_busy() override { return {}; }
  void ask_to_stop() override {}
  bool stop_asked() const override { return false; }
  Status leave() override { return {}; }
  void interrupt(const Error&) override {}
  void abandon(const Error&) override {}
  client::SnapshotClient& snapshots() override { std::abort(); }
};

class LoopTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_.write("train.csv", "1,2\n2,4\n3,6\n");
    auto job = config::read_job(folder_.write("job.toml", kJob));
    ASSERT_TRUE(job) << job.error().message;
    auto model = Model::build(*job);
    ASSERT_TRUE(model) << model.error().message;
    model_.emplace(*std::move(model));
    auto share = config::data_share(folder_.path(), job->data.train, 0, 1);
    ASSERT_TRUE(share) << share.error().message;
    options_.train = job->train;
    options_.optimizer = job->optimizer;
    options_.train_data = {.data = job->data,
                           .share = *std::move(share),
                           .folder = folder_.path(),
                           .batch_size = job->train.batch_size};
  }
  Status run() {
    MetricsFile metrics = *MetricsFile::open("");
    return Loop(options_, dictionary_, *model_, client_, metrics).run();
  }

  test::TemporaryFolder folder_;
  LoopOptions options_;
  data::Dictionary dictionary_;
  std::optional<Model> model_;
  IdleClient client_;
};

// A life that is soon killed has told that it trained.
TEST_F(LoopTest, TheFirstBatchOfALifeIsReportedAtOnce) {
  std::vector<std::uint64_t> batches;
  options_.report = [&](const wire::Progress& progress) { batches.push_back(progress.batch()); };
  const Status done = run();
  ASSERT_TRUE(done) << done.error().message;
  ASSERT_GE(batches.size(), 2U);
  EXPECT_EQ(batches[0], 0U);
  EXPECT_EQ(batches[1], 1U);
}

}  // namespace
}  // namespace paddle::trainer
