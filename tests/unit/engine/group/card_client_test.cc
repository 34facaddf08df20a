// A trainer with all parameters on its card beside the same job without any client, and snapshots
// that go on on pservers and back.
#include "engine/group/card_client.h"

#include <cmath>

#include "tests/support/device/fake_device.h"
#include "tests/support/temporary_folder.h"
#include "tests/unit/engine/client/client_fixture.h"
#include "tests/unit/engine/group/group_fixture.h"

namespace paddle::strategy {
namespace {

using client::kSamples;

class OnlyTrainer {
 public:
  explicit OnlyTrainer(const wire::ParameterSet& set)
      : set_(set),
        stream_(*device::Stream::open(device_)),
        done_(*device::Event::make(device_)),
        room_(device_),
        dense_(2) {
    EXPECT_TRUE(room_.reserve(64));
    auto group =
        collective::Group::join({.keys = {}, .members = {{"alone", {}}}}, collective::soon());
    const device::ComputeStream compute{&device_, stream_.handle()};
    auto part =
        GroupClient::create(set_, *std::move(group), {}, {}, CardRanks::Options{compute, "j"});
    const std::vector<std::uint64_t> any(3);
    client_ = std::make_unique<CardClient>(set_, *std::move(part),
                                           *CardTables::create(set_, compute, any));
    dense_[1].parameter = 1;
    rows_.ids = {5, 99, 1000};
    rows_.parameter = 2;
  }

  client::ParameterClient& client() { return *client_; }
  std::span<client::SparseRows> rows() { return {&rows_, 1}; }
  void begin() {
    ASSERT_TRUE(client_->ready());
    ASSERT_TRUE(client_->pull_dense(dense_));
  }
  // As client::run_steps, beside the job without a client. Each second push begins early, as that
  // of a batch that the card still computes.
  void run(int from, int to, client::Direct& direct) {
    for (int step = from; step <= to; ++step) {
      ASSERT_TRUE(client_->pull_rows(rows()));
      EXPECT_EQ(row(), direct.row) << step;
      auto gradients = client::dense_parameters();
      for (std::size_t p = 0; p < 2; ++p) {
        gradients[p].gradient.resize(p == 0 ? 24 : 4);
        for (std::size_t i = 0; i < gradients[p].gradient.size(); ++i) {
          gradients[p].gradient[i] =
              0.37F * static_cast<float>(step) - 0.11F * static_cast<float>(i);
        }
        write(gradients[p].gradient, dense_[p].card.gradient);
      }
      const std::vector<float> of_rows(9, 0.01F * static_cast<float>(step));
      write(of_rows, rows_.card.place.gradient);
      direct.step(static_cast<std::uint64_t>(step), gradients, std::span(of_rows).first(3));
      if (step % 2 == 0) {
        const float* const last = give_work();
        ASSERT_TRUE(client_->begin_push(kSamples, rows()));
        ASSERT_TRUE(*client_->pull_ahead(rows()));
        EXPECT_TRUE(std::isnan(*last)) << "the host waits for the batch";
        expect_values_of(direct);
        EXPECT_FALSE(std::isnan(*last));
      }
      const Status pushed = client_->push(kSamples, 2.5, dense_, rows());
      ASSERT_TRUE(pushed) << pushed.error().message;
      expect_values_of(direct);
    }
  }
  void expect_values_of(const client::Direct& direct) {
    EXPECT_EQ(read(dense_[0].card.value, 24), copy(direct.dense[0]));
    EXPECT_EQ(read(dense_[1].card.value, 4), copy(direct.dense[1]));
    EXPECT_EQ(row(), direct.row);
  }
  // The row of id 99.
  std::vector<float> row() { return read(rows_.card.place.value + 3 * rows_.card.numbers[1], 3); }
  static std::vector<float> copy(const LargeArray<float>& values) {
    return {values.begin(), values.end()};
  }

 private:
  // Gives the card the last work of a batch, and returns a number that is NaN until the card has
  // done it.
  const float* give_work() {
    float* const last = room_.data() + room_.capacity() - 1;
    device_.download(stream_.handle(), bytes(dense_[0].card.value), bytes(last), sizeof *last);
    return last;
  }
  static std::byte* bytes(float* of) { return reinterpret_cast<std::byte*>(of); }
  void finish() {
    device_.record(stream_.handle(), done_.handle());
    ASSERT_TRUE(device_.wait(done_.handle(), collective::soon()));
  }
  void write(std::span<const float> from, float* to) {
    std::ranges::copy(from, room_.data());
    device_.upload(stream_.handle(), bytes(room_.data()), bytes(to), from.size_bytes());
    finish();
  }
  std::vector<float> read(float* from, std::size_t count) {
    device_.download(stream_.handle(), bytes(from), bytes(room_.data()), count * sizeof(float));
    finish();
    return {room_.data(), room_.data() + count};
  }

  const wire::ParameterSet set_;
  test::FakeDevice device_;
  device::Stream stream_;
  device::Event done_;
  device::PinnedMemory<float> room_;
  std::vector<client::DenseParameter> dense_;
  client::SparseRows rows_;
  std::unique_ptr<CardClient> client_;
};

TEST(CardClient, Trap23ItsSnapshotsGoOnOnPserversAndBackWithTheBitsOfBoth) {
  for (const std::string method : {"adam", "ftrl", "torch_momentum"}) {
    SCOPED_TRACE(method);
    wire::ParameterSet set = client::full_set(method, 0, 1);
    set.set_dense_strategy(wire::STRATEGY_COLLECTIVE);
    set.set_trainers_return(false);
    wire::ParameterSet on_shards = set;
    on_shards.set_dense_strategy(wire::STRATEGY_SYNC);
    on_shards.set_dense_shards(1);
    client::Direct direct(set);
    const test::TemporaryFolder folder;
    const auto resume = [&](client::ParameterClient& client, const char* name) {
      const auto reader = snapshot::SnapshotReader::open(folder / name);
      ASSERT_TRUE(reader) << reader.error().message;
      const Status resumed = client.snapshots().resume(*reader);
      ASSERT_TRUE(resumed) << resumed.error().message;
    };
    {
      OnlyTrainer trainer(set);
      trainer.begin();
      trainer.run(1, 4, direct);
      const auto totals = trainer.client().finish_pass({});
      ASSERT_TRUE(totals) << totals.error().message;
      EXPECT_EQ(totals->samples, 4 * kSamples);
      EXPECT_EQ(totals->tables.at(2).rows, 3U);
      EXPECT_EQ(totals->sparse.pushes, 4U);
      std::vector<client::DenseParameter> averages(1);
      ASSERT_TRUE(trainer.client().pull_averages(averages, trainer.rows()));
      EXPECT_TRUE(
          std::ranges::equal(averages[0].values(), std::span(direct.dense_state[0]).last(24)));
      EXPECT_TRUE(std::ranges::equal(trainer.row(), std::span(direct.row_state).last(3)));
      ASSERT_TRUE(trainer.client().snapshots().save(folder / "pass-00000"));
    }
    {
      const auto shards = client::client_of(on_shards);
      resume(*shards, "pass-00000");
      ASSERT_TRUE(shards->ready());
      auto dense = client::dense_parameters();
      ASSERT_TRUE(shards->pull_dense(dense));
      std::vector<client::SparseRows> rows{{2, {5, 99, 1000}, {}, {}}};
      client::run_steps(*shards, 5, 7, dense, rows, &direct);
      ASSERT_TRUE(shards->finish_pass({}));
      ASSERT_TRUE(shards->snapshots().save(folder / "pass-00001"));
    }
    OnlyTrainer trainer(set);
    resume(trainer.client(), "pass-00001");
    trainer.begin();
    EXPECT_EQ(trainer.client().progress().passes, 2U);
    trainer.run(8, 10, direct);
    ASSERT_TRUE(trainer.client().pause_pass({}));
    EXPECT_TRUE(trainer.client().leave());
  }
}

}  // namespace
}  // namespace paddle::strategy
