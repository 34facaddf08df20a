// Dense parameters on the ranks' cards: the values of a pserver's shard, snapshots that go on
// without cards and back, and failures of cards.
#include "engine/group/card_ranks.h"

#include <atomic>
#include <ranges>

#include "tests/support/device/fake_device.h"
#include "tests/unit/engine/group/group_client_fixture.h"

namespace paddle::strategy {
namespace {

using test::FakeDevice;

TimePoint soon() {
  return SteadyClock().now() + std::chrono::seconds(20);
}

test::FakeDeviceOptions options_of(std::uint32_t rank, std::uint64_t first_seed = 0) {
  test::FakeDeviceOptions options;
  options.card.index = rank;
  options.card.name = "Fake " + std::to_string(rank);
  options.seed = first_seed + rank;
  return options;
}

// A rank's card, with the stream that would compute gradients.
struct RankCard {
  explicit RankCard(std::uint32_t rank, std::uint64_t first_seed = 0)
      : device(options_of(rank, first_seed)),
        stream(*device::Stream::open(device)),
        done(*device::Event::make(device)),
        room(device) {}

  CardRanks::Options options() { return {{&device, stream.handle()}, "job", true, 1}; }
  Status finish() {
    device.record(stream.handle(), done.handle());
    return device.wait(done.handle(), soon());
  }
  void write(std::span<const float> from, float* to) {
    ASSERT_TRUE(room.reserve(from.size()));
    std::ranges::copy(from, room.data());
    device.upload(stream.handle(), reinterpret_cast<const std::byte*>(room.data()),
                  reinterpret_cast<std::byte*>(to), from.size_bytes());
    ASSERT_TRUE(finish());
  }
  std::vector<float> read(const float* from, std::size_t count) {
    EXPECT_TRUE(room.reserve(count));
    device.download(stream.handle(), reinterpret_cast<const std::byte*>(from),
                    reinterpret_cast<std::byte*>(room.data()), count * sizeof(float));
    EXPECT_TRUE(finish());
    return {room.data(), room.data() + count};
  }

  FakeDevice device;
  device::Stream stream;
  device::Event done;
  device::PinnedMemory<float> room;
  std::vector<device::PinnedMemory<float>> rooms;  // of gradients that are on their way
};

// A trainer whose gradients are made on its card.
struct CardTrainer {
  std::uint32_t rank;
  client::ParameterClient& client;
  RankCard& card;
  const std::vector<std::uint64_t>& sizes;
  std::vector<DenseParameter> dense;
  std::uint64_t done = 0;

  // As an executor does: nothing waits for a gradient but its event.
  Status begin_push() {
    for (DenseParameter& one : dense | std::views::reverse) {
      auto& room = card.rooms.emplace_back(card.device);
      PADDLE_TRY_STATUS(room.reserve(sizes[one.parameter]));
      const std::span<float> gradient(room.data(), sizes[one.parameter]);
      fill_gradient(gradient, rank, done, one.parameter);
      card.device.upload(card.stream.handle(), reinterpret_cast<const std::byte*>(room.data()),
                         reinterpret_cast<std::byte*>(one.card.gradient), gradient.size_bytes());
      if (one.card.written != nullptr) card.device.record(card.stream.handle(), {one.card.written});
    }
    return client.begin_push(samples_of(rank, done), {});
  }
  Status push_early() {
    PADDLE_TRY_STATUS(begin_push());
    const Status pushed = client.push(samples_of(rank, done), cost_of(rank, done), dense, {});
    ++done;
    if (pushed) card.rooms.clear();
    return pushed;
  }
  Status push() {
    for (DenseParameter& one : dense) {
      std::vector<float> gradient(sizes[one.parameter]);
      fill_gradient(gradient, rank, done, one.parameter);
      card.write(gradient, one.card.gradient);
    }
    const Status pushed = client.push(samples_of(rank, done), cost_of(rank, done), dense, {});
    ++done;
    return pushed;
  }
  void run_pass(std::uint64_t batches, bool is_early = false) {
    for (std::uint64_t i = 0; i < batches; ++i) {
      const Status pushed = is_early ? push_early() : push();
      ASSERT_TRUE(pushed) << pushed.error().message;
    }
  }
  void expect_values(const OnShard& expected) {
    for (const DenseParameter& one : dense) {
      const auto values = card.read(one.card.value, sizes[one.parameter]);
      const auto want = expected.values(one.parameter);
      EXPECT_TRUE(std::ranges::equal(values, want)) << "rank " << rank << ", p" << one.parameter;
    }
  }
};

using Work = std::function<void(CardTrainer&)>;

// Runs `work` as every rank, each with a card of its own.
void as_card_trainers(const wire::ParameterSet& set, const std::vector<std::uint64_t>& sizes,
                      const Work& work, const std::string& resumed = "",
                      std::uint64_t first_seed = 0, const Memories* memories = nullptr) {
  collective::as_ranks(
      collective::options_of(set.num_trainers()), [&](collective::GroupOptions options) {
        const std::uint32_t rank = options.rank;
        RankCard card(rank, first_seed);
        auto group = collective::Group::join(std::move(options), collective::soon());
        ASSERT_TRUE(group) << group.error().message;
        std::optional<GroupSavepoints::Options> savepoints;
        if (memories != nullptr) savepoints = memories->of(rank);
        auto made = GroupClient::create(set, *std::move(group), {}, {}, card.options(),
                                        std::move(savepoints));
        ASSERT_TRUE(made) << made.error().message;
        client::ParameterClient& client = **made;
        if (rank == 0 && !resumed.empty()) {
          const auto reader = snapshot::SnapshotReader::open(resumed);
          ASSERT_TRUE(reader) << reader.error().message;
          ASSERT_TRUE(client.snapshots().resume(*reader));
        }
        ASSERT_TRUE(client.ready());
        CardTrainer trainer{rank, client, card, sizes, parameters_of(set)};
        ASSERT_TRUE(client.pull_dense(trainer.dense));
        work(trainer);
      });
}

class OnCards : public testing::TestWithParam<std::tuple<std::string, std::uint32_t>> {};

// The fake adds up in the order of ranks, as a shard does.
TEST_P(OnCards, ValuesAndStateAreThoseOfAShardWithUnevenData) {
  const auto& [method, trainers] = GetParam();
  const auto set = set_of(method, kSliced, trainers);
  const std::vector<std::uint64_t> all{3, 0, 5};
  const std::vector<std::uint64_t> batches(all.begin(), all.begin() + trainers);
  OnShard shard(set);
  run_on_shard(shard, batches, 2);
  const test::TemporaryFolder folder;
  as_card_trainers(set, kSliced, [&](CardTrainer& rank) {
    for (int pass = 0; pass < 2; ++pass) {
      rank.run_pass(batches[rank.rank]);
      ASSERT_TRUE(rank.client.finish_pass({}));
      ASSERT_TRUE(rank.client.pull_dense(rank.dense));
    }
    rank.expect_values(shard);
    if (rank.rank == 0) {
      auto averages = parameters_of(set);
      ASSERT_TRUE(rank.client.pull_averages(averages, {}));
      for (const DenseParameter& one : averages) {
        EXPECT_TRUE(
            std::ranges::equal(one.values(), shard.plane(one.parameter, shard.state_width())));
      }
      const Status saved = rank.client.snapshots().save(folder / "pass-00001");
      EXPECT_TRUE(saved) << saved.error().message;
    }
    ASSERT_TRUE(rank.client.pause_pass({}));
    const Status left = rank.client.leave();
    EXPECT_TRUE(left) << left.error().message;
  });
  const auto reader = snapshot::SnapshotReader::open(folder / "pass-00001");
  ASSERT_TRUE(reader) << reader.error().message;
  EXPECT_EQ(reader->info().samples, shard.samples());
}
std::vector<std::string> method_names() {
  std::vector<std::string> names;
  for (const optim::Method& method : optim::methods()) names.emplace_back(method.name);
  return names;
}
TEST_P(OnCards, LostTrainersComeBackToASavepointWithTheBitsOfAShard) {
  const auto& [method, trainers] = GetParam();
  const auto set = returning(set_of(method, kSliced, trainers));
  const std::vector<std::uint64_t> batches(trainers, 4);
  OnShard shard(set);
  run_on_shard(shard, batches);
  const Memories memories(trainers);
  const auto is_lost = [](CardTrainer& rank) {
    EXPECT_TRUE(rank.push());
    (void)rank.push();  // others may end before it does
  };
  as_card_trainers(set, kSliced, is_lost, "", 0, &memories);
  const auto comes_back = [&](CardTrainer& rank) {
    EXPECT_TRUE(rank.client.progress().is_running);
    rank.done = rank.client.progress().batches;
    EXPECT_GE(rank.done, 1U);
    rank.run_pass(4 - rank.done);
    ASSERT_TRUE(rank.client.finish_pass({}));
    rank.expect_values(shard);
    EXPECT_TRUE(rank.client.leave());
  };
  as_card_trainers(set, kSliced, comes_back, "", 0, &memories);
}

INSTANTIATE_TEST_SUITE_P(
    Methods, OnCards, testing::Combine(testing::ValuesIn(method_names()), testing::Values(1U, 3U)),
    [](const auto& one) {
      return std::get<0>(one.param) + "On" + std::to_string(std::get<1>(one.param));
    });

TEST(CardRanks, ASnapshotGoesOnWithoutCardsAndBack) {
  const test::TemporaryFolder folder;
  const auto set = set_of("adam", kSliced, 2);
  OnShard expected(set);
  run_on_shard(expected, {2, 3}, 3);
  const auto save = [&](client::ParameterClient& client, std::uint32_t rank, const char* name) {
    if (rank == 0) {
      EXPECT_TRUE(client.snapshots().save(folder / name));
    }
    ASSERT_TRUE(client.pause_pass({}));
    EXPECT_TRUE(client.leave());
  };
  as_card_trainers(set, kSliced, [&](CardTrainer& rank) {
    rank.run_pass(2 + rank.rank);
    ASSERT_TRUE(rank.client.finish_pass({}));
    save(rank.client, rank.rank, "pass-00000");
  });
  as_trainers(
      set,
      [&](Rank& rank) {
        rank.done = 2 + rank.rank;
        rank.run_pass(2 + rank.rank);
        ASSERT_TRUE(rank.client.finish_pass({}));
        save(rank.client, rank.rank, "pass-00001");
      },
      folder / "pass-00000");
  as_card_trainers(
      set, kSliced,
      [&](CardTrainer& rank) {
        rank.done = 2 * (2 + rank.rank);
        rank.run_pass(2 + rank.rank);
        ASSERT_TRUE(rank.client.finish_pass({}));
        ASSERT_TRUE(rank.client.pull_dense(rank.dense));
        rank.expect_values(expected);
        EXPECT_TRUE(rank.client.leave());
      },
      folder / "pass-00001");
}

// Cards compute, and go beside each other, as late and in as wild an order as events allow.
TEST(CardRanks, Trap15SumsThatBeginEarlyAreThoseOfWholeGradients) {
  const auto set = set_of("adam", kSliced, 3);
  const std::vector<std::uint64_t> batches{3, 0, 5};
  OnShard shard(set);
  run_on_shard(shard, batches, 2);
  for (std::uint64_t seed = 0; seed < 20; seed += 4) {
    as_card_trainers(
        set, kSliced,
        [&](CardTrainer& rank) {
          double cost = 0;
          for (int pass = 0; pass < 2; ++pass) {
            rank.run_pass(batches[rank.rank], true);
            const auto totals = rank.client.finish_pass({});
            ASSERT_TRUE(totals) << totals.error().message;
            cost += totals->cost;
            ASSERT_TRUE(rank.client.pull_dense(rank.dense));
          }
          rank.expect_values(shard);
          double right = 0;
          for (std::uint32_t r = 0; r < 3; ++r) {
            for (std::uint64_t i = 0; i < 2 * batches[r]; ++i) right += cost_of(r, i);
          }
          EXPECT_DOUBLE_EQ(cost, right) << "a round tells the costs of the one before";
          EXPECT_TRUE(rank.client.leave());
        },
        "", seed);
    if (testing::Test::HasFailure()) break;
  }
}

// The update of an only rank needs nothing of the host: the card makes it behind the gradients.
TEST(CardRanks, AnOnlyRankUpdatesBeforeTheCostIsKnown) {
  const auto set = returning(set_of("adam", kSliced, 1));
  OnShard shard(set);
  const Memories memories(1);
  const auto trains = [&](CardTrainer& rank) {
    double cost = 0;
    for (std::uint64_t batch = 0; batch < 3; ++batch) {
      shard.step(std::vector<std::uint32_t>{0}, {batch});
      ASSERT_TRUE(rank.begin_push());
      rank.expect_values(shard);
      ASSERT_TRUE(rank.client.push(samples_of(0, batch), cost_of(0, batch), rank.dense, {}));
      rank.expect_values(shard);
      cost += cost_of(0, batch);
      ++rank.done;
    }
    const auto totals = rank.client.finish_pass({});
    ASSERT_TRUE(totals) << totals.error().message;
    EXPECT_DOUBLE_EQ(totals->cost, cost);
    EXPECT_EQ(totals->dense.pushes, 3U);
    // Lost between both, it comes back to the savepoint before.
    ASSERT_TRUE(rank.begin_push());
  };
  as_card_trainers(set, kSliced, trains, "", 0, &memories);
  const auto comes_back = [&](CardTrainer& rank) {
    EXPECT_EQ(rank.client.progress().batches, 0U);
    EXPECT_EQ(rank.client.progress().passes, 1U);
    rank.expect_values(shard);
    EXPECT_TRUE(rank.client.leave());
  };
  as_card_trainers(set, kSliced, comes_back, "", 0, &memories);
}

TEST(CardRanks, ASumThatHasBegunEndsWithItsRank) {
  const auto set = set_of("sgd", kSliced, 2);
  as_card_trainers(set, kSliced, [&](CardTrainer& rank) {
    rank.run_pass(1, true);
    const Status begun = rank.begin_push();
    ASSERT_TRUE(begun) << begun.error().message;
    if (rank.rank == 1) return;  // without a word
    const Status pushed = rank.client.push(samples_of(0, 1), 1, rank.dense, {});
    if (!pushed) {
      EXPECT_NE(pushed.error().message.find("rank 1"), std::string::npos) << pushed.error().message;
    }
  });
}

TEST(CardRanks, ACostThatIsNotFiniteIsTheCauseThatAllRanksTell) {
  const auto set = set_of("sgd", kSliced, 2);
  as_card_trainers(set, kSliced, [&](CardTrainer& rank) {
    rank.run_pass(1, true);
    ASSERT_TRUE(rank.begin_push());
    const double cost = rank.rank == 1 ? std::numeric_limits<double>::quiet_NaN() : 1;
    Status pushed = rank.client.push(samples_of(rank.rank, 1), cost, rank.dense, {});
    if (pushed) pushed = rank.push_early();
    ASSERT_FALSE(pushed);
    EXPECT_NE(pushed.error().message.find("trainer 1 pushed a cost of nan (batch 2)"),
              std::string::npos)
        << pushed.error().message;
  });
}

// Work of the card that lies behind the last layer's gradient finds the sum of all ranks there: on
// the rank that comes last at least, as the other one waits for it.
TEST(CardRanks, ASumIsThereBeforeTheComputationHasEnded) {
  const std::vector<std::uint64_t> sizes{50, 40};
  const auto set = set_of("sgd", sizes, 2);
  std::atomic<int> sums_found = 0;
  collective::as_ranks(collective::options_of(2), [&](collective::GroupOptions options) {
    const std::uint32_t rank = options.rank;
    RankCard card(rank, test::kNewestFirst - rank);
    auto group = collective::Group::join(std::move(options), collective::soon());
    ASSERT_TRUE(group) << group.error().message;
    auto made = GroupClient::create(set, *std::move(group), {}, {}, card.options());
    ASSERT_TRUE(made) << made.error().message;
    ASSERT_TRUE((*made)->ready());
    std::vector<DenseParameter> dense = parameters_of(set);
    ASSERT_TRUE((*made)->pull_dense(dense));
    const auto stream = card.stream.handle();
    device::CardMemory<float> seen(card.device);
    ASSERT_TRUE(seen.reserve(sizes[1]));
    const float own = rank == 0 ? 4 : 8;
    card.device.launch(stream, kernels::device::Fill{sizes[1], own, dense[1].card.gradient});
    card.device.record(stream, {dense[1].card.written});
    card.device.launch(stream, kernels::device::CopyBlock{.rows = 1,
                                                          .width = sizes[1],
                                                          .from = {dense[1].card.gradient, 0},
                                                          .to = {seen.data(), 0}});
    card.device.launch(stream, kernels::device::Fill{sizes[0], 1, dense[0].card.gradient});
    card.device.record(stream, {dense[0].card.written});
    ASSERT_TRUE((*made)->begin_push(1, {}));
    while (!*card.device.is_done({dense[0].card.written})) {  // sums are tried first
    }
    ASSERT_TRUE((*made)->push(1, 1, dense, {}));
    EXPECT_EQ(card.read(dense[1].card.gradient, 1)[0], 6);
    if (card.read(seen.data(), 1)[0] == 6) ++sums_found;
    ASSERT_TRUE((*made)->leave());
  });
  EXPECT_GE(sums_found, 1);
}

// Before a step, and all ranks hear which card it is.
TEST(CardRanks, Trap33ACardWithoutRoomEndsAllRanksAndIsNamed) {
  const auto set = set_of("adam", {4'000'000}, 2);
  collective::as_ranks(collective::options_of(2), [&](collective::GroupOptions options) {
    const std::uint32_t rank = options.rank;
    test::FakeDeviceOptions small = options_of(rank);
    if (rank == 1) small.card.memory_bytes = std::size_t{20} << 20U;
    FakeDevice device(small);
    const auto stream = *device::Stream::open(device);
    auto group = collective::Group::join(std::move(options), collective::soon());
    ASSERT_TRUE(group) << group.error().message;
    const auto client = GroupClient::create(set, *std::move(group), {}, {},
                                            CardRanks::Options{{&device, stream.handle()}, "job"});
    ASSERT_FALSE(client);
    EXPECT_EQ(client.error().code, Errc::kResource);
    EXPECT_NE(client.error().message.find("Fake 1"), std::string::npos) << client.error().message;
  });
}

TEST(CardRanks, ARankThatIsLostDuringASumIsNamedByTheOthers) {
  const auto set = set_of("sgd", kSliced, 3);
  as_card_trainers(set, kSliced, [&](CardTrainer& rank) {
    Status pushed = rank.push();
    if (rank.rank == 1) return;  // without a word
    for (int i = 0; i < 5 && pushed; ++i) pushed = rank.push();
    ASSERT_FALSE(pushed);
    EXPECT_NE(pushed.error().message.find("rank 1"), std::string::npos) << pushed.error().message;
  });
}

TEST(CardRanks, ACardThatFailsIsTheCauseThatAllRanksTell) {
  const auto set = set_of("sgd", kSliced, 2);
  as_card_trainers(set, kSliced, [&](CardTrainer& rank) {
    rank.run_pass(1);
    if (rank.rank == 1) rank.card.device.fail_order(8);
    Status pushed = rank.push();
    for (int i = 0; i < 5 && pushed; ++i) pushed = rank.client.push(1, 1, rank.dense, {});
    ASSERT_FALSE(pushed);
    EXPECT_NE(pushed.error().message.find("Fake 1"), std::string::npos) << pushed.error().message;
  });
}

TEST(CardRanks, AValueThatIsNoLongerFiniteIsNamed) {
  const auto set = set_of("sgd", kSliced, 1);
  as_card_trainers(set, kSliced, [&](CardTrainer& rank) {
    std::vector<float> gradient(kSliced[1], std::numeric_limits<float>::quiet_NaN());
    rank.card.write(gradient, rank.dense[1].card.gradient);
    Status pushed = rank.client.push(1, 1, rank.dense, {});
    if (pushed) pushed = Status(rank.client.finish_pass({}).error());
    ASSERT_FALSE(pushed);
    EXPECT_EQ(pushed.error().code, Errc::kFailed);
    EXPECT_NE(pushed.error().message.find("'p1'"), std::string::npos) << pushed.error().message;
  });
}

TEST(CardRanks, NcclIsRefusedBetweenHostsUnlessTheClusterSaysSo) {
  const auto set = set_of("sgd", kSliced, 2);
  collective::as_ranks(collective::options_of(2), [&](collective::GroupOptions options) {
    options.host = 100 + options.rank;
    RankCard card(options.rank);
    auto group = collective::Group::join(std::move(options), collective::soon());
    ASSERT_TRUE(group) << group.error().message;
    CardRanks::Options sealed = card.options();
    sealed.may_be_clear = false;
    const auto client = GroupClient::create(set, *std::move(group), {}, {}, sealed);
    ASSERT_FALSE(client);
    EXPECT_EQ(client.error().code, Errc::kUsage);
    EXPECT_NE(client.error().hint.find("nccl_clear = true"), std::string::npos);
  });
}

}  // namespace
}  // namespace paddle::strategy
