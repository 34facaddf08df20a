// The loop with a card, which computes a batch while the next one is made ready.
#include "engine/trainer/batch_feed.h"

#include "tests/unit/engine/trainer/fake_cards.h"
#include "tests/unit/engine/trainer/loop_fixture.h"

namespace paddle::trainer {
namespace {

// Pulls rows ahead, or not.
class NotingClient final : public IdleClient {
 public:
  explicit NotingClient(bool pulls_ahead) : pulls_ahead_(pulls_ahead) {}

  Status pull_rows(std::span<client::SparseRows>) override {
    order += "pull ";
    return {};
  }
  Result<bool> pull_ahead(std::span<client::SparseRows>) override {
    order += pulls_ahead_ ? "ahead " : "asked ";
    return pulls_ahead_;
  }
  Status begin_push(std::uint64_t samples, std::span<client::SparseRows>) override {
    order += "begin ";
    begun += samples;
    return {};
  }
  Status push(std::uint64_t samples, double cost, std::span<client::DenseParameter> dense,
              std::span<client::SparseRows> rows) override {
    order += "push ";
    return IdleClient::push(samples, cost, dense, rows);
  }

  std::string order;
  std::uint64_t begun = 0;

 private:
  bool pulls_ahead_;
};

class BatchFeedTest : public LoopTest {
 protected:
  void SetUp() override {
    LoopTest::SetUp();
    options_.train.passes = 1;
  }
  void use_card() {
    auto job = config::read_job(folder_.write("job.toml", kJob));
    ASSERT_TRUE(job);
    job->train.device = config::TrainDevice::kGpu;
    cards_.emplace(1);
    auto model = Model::build(*job);
    ASSERT_TRUE(model) << model.error().message;
    model_.emplace(*std::move(model));
  }
  void TearDown() override { model_.reset(); }
  void run(client::ParameterClient& client) {
    MetricsFile metrics = *MetricsFile::open("");
    const Status done = Loop(options_, dictionary_, *model_, client, metrics).run();
    EXPECT_TRUE(done) << done.error().message;
  }
  std::string order_of(bool pulls_ahead) {
    NotingClient client(pulls_ahead);
    run(client);
    EXPECT_EQ(client.begun, 3U);
    return client.order;
  }

  std::optional<FakeCards> cards_;
};

TEST_F(BatchFeedTest, WithoutACardEachBatchIsMadeReadyInItsTurn) {
  EXPECT_EQ(order_of(true), "pull begin push pull begin push pull begin push ");
}

TEST_F(BatchFeedTest, WithACardTheNextBatchIsMadeReadyBeforeThePush) {
  use_card();
  EXPECT_EQ(order_of(true), "pull begin ahead push begin ahead push begin push ");
}

TEST_F(BatchFeedTest, Trap48RowsThatMayNotBePulledAheadArePulledAfterThePush) {
  use_card();
  EXPECT_EQ(order_of(false), "pull begin asked push pull begin asked push pull begin push ");
}

TEST_F(BatchFeedTest, ABatchBehindATestIsMadeReadyAfterIt) {
  use_card();
  options_.train.test_period = 2;
  EXPECT_EQ(order_of(true), "pull begin ahead push begin push pull begin push ");
}

TEST_F(BatchFeedTest, BatchesAndTheirCostsAreTheSame) {
  IdleClient on_cpus;
  run(on_cpus);
  use_card();
  IdleClient on_card;
  run(on_card);
  ASSERT_EQ(on_card.pushed.size(), on_cpus.pushed.size());
  for (std::size_t i = 0; i < on_card.pushed.size(); ++i) {
    EXPECT_EQ(on_card.pushed[i].samples, on_cpus.pushed[i].samples);
    EXPECT_NEAR(on_card.pushed[i].cost, on_cpus.pushed[i].cost, 1e-6 * on_cpus.pushed[i].cost);
    EXPECT_NEAR(on_card.pushed[i].gradient, on_cpus.pushed[i].gradient, 1e-5);
  }
}

// The batches before it are pushed first.
TEST_F(BatchFeedTest, ABadBatchIsToldInItsTurn) {
  folder_.write("train.csv", "1,2\n2,4\nx,6\n");
  use_card();
  IdleClient client;
  MetricsFile metrics = *MetricsFile::open("");
  const Status done = Loop(options_, dictionary_, *model_, client, metrics).run();
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, Errc::kData);
  EXPECT_EQ(client.pushed.size(), 2U);
}

}  // namespace
}  // namespace paddle::trainer
