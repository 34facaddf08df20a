// Stops and snapshots of trainers that are ranks of a group.
#include "tests/unit/engine/group/group_client_fixture.h"

namespace paddle::strategy {
namespace {

// Trap 17.
TEST(GroupClient, Trap17AllStopAfterTheSameBatchAndGoOn) {
  const auto set = set_of("adam", kSliced, 3);
  OnShard shard(set);
  run_on_shard(shard, {4, 6, 5});
  const test::TemporaryFolder folder;
  as_trainers(set, [&](Rank& rank) {
    for (int i = 0; i < 3 && !rank.client.stop_asked(); ++i) {
      if (i == 1 && rank.rank == 2) rank.client.ask_to_stop();
      ASSERT_TRUE(rank.push());
    }
    EXPECT_EQ(rank.done, 2U);
    const auto totals = rank.client.pause_pass({});
    ASSERT_TRUE(totals);
    EXPECT_TRUE(totals->paused);
    if (rank.rank == 0) {
      EXPECT_TRUE(rank.client.snapshots().save(folder / "stopped"));
    }
    EXPECT_TRUE(rank.client.leave());
  });
  as_trainers(
      set,
      [&](Rank& rank) {
        EXPECT_EQ(rank.client.progress().batches, 2U);
        rank.done = 2;
        rank.run_pass(std::vector{2U, 4U, 3U}[rank.rank]);
        ASSERT_TRUE(rank.client.finish_pass({}));
        EXPECT_TRUE(same_bits(rank.dense[0].values(), shard.values(0)));
        EXPECT_TRUE(rank.client.leave());
      },
      folder / "stopped");
}

// Trap 17: its rounds at the end of a pass carry the request.
TEST(GroupClient, Trap17ATrainerWithoutDataStopsTheJob) {
  as_trainers(set_of("sgd", kSliced, 3), [&](Rank& rank) {
    if (rank.rank == 2) {
      rank.client.ask_to_stop();
    } else {
      while (!rank.client.stop_asked() && rank.done < 1000) ASSERT_TRUE(rank.push());
    }
    const auto totals =
        rank.client.stop_asked() ? rank.client.pause_pass({}) : rank.client.finish_pass({});
    ASSERT_TRUE(totals) << totals.error().message;
    EXPECT_TRUE(totals->paused);
    EXPECT_EQ(totals->dense.pushes, 2U) << "after the first round";
    EXPECT_TRUE(rank.client.leave());
  });
}

// Trap 22.
TEST(GroupClient, Trap22TheMiddleOfAPassIsForAsManyTrainers) {
  const test::TemporaryFolder folder;
  as_trainers(set_of("sgd", kSmall, 2), [&](Rank& rank) {
    rank.client.ask_to_stop();
    ASSERT_TRUE(rank.push());
    ASSERT_TRUE(rank.client.pause_pass({}));
    if (rank.rank == 0) {
      EXPECT_TRUE(rank.client.snapshots().save(folder / "stopped"));
    }
    EXPECT_TRUE(rank.client.leave());
  });
  const auto reader = snapshot::SnapshotReader::open(folder / "stopped");
  ASSERT_TRUE(reader);
  const auto set = set_of("sgd", kSmall, 3);
  collective::as_ranks(collective::options_of(3), [&](collective::GroupOptions options) {
    const std::uint32_t rank = options.rank;
    auto group = collective::Group::join(std::move(options), collective::soon());
    Status begun;
    if (group) {
      auto client = GroupClient::create(set, *std::move(group), {}, {});
      ASSERT_TRUE(client);
      client::ParameterClient& face = **client;
      begun = rank == 0 ? face.snapshots().resume(*reader) : face.ready();
    } else {
      begun = group.error();  // rank 0 has failed while this one still joined
    }
    ASSERT_FALSE(begun);
    EXPECT_EQ(begun.error().code, Errc::kUsage);
    EXPECT_NE(begun.error().message.find("which 2 trainers shared"), std::string::npos)
        << begun.error().message;
    EXPECT_NE(begun.error().hint.find("continue with 2 trainers"), std::string::npos);
  });
}

// Trap 23: optimizer state too, both ways, and with another number of trainers.
TEST(GroupClient, Trap23ASnapshotGoesOnOnPserversAndBack) {
  const test::TemporaryFolder folder;
  const auto group_set = set_of("adam", kSliced, 2);
  auto shard_set = sync_set(set_of("adam", kSliced, 1));
  shard_set.set_dense_shards(3);
  OnShard expected(group_set);
  const auto step_of = [](DenseParameter& one, std::uint64_t batch) {
    one.gradient.resize(kSliced[one.parameter]);
    fill_gradient(one.gradient, 0, batch, one.parameter);
  };
  run_on_shard(expected, {2, 3});
  as_trainers(group_set, [&](Rank& rank) {
    rank.run_pass(2 + rank.rank);
    ASSERT_TRUE(rank.client.finish_pass({}));
    if (rank.rank == 0) {
      EXPECT_TRUE(rank.client.snapshots().save(folder / "pass-00000"));
    }
    EXPECT_TRUE(rank.client.leave());
  });
  {
    const auto reader = snapshot::SnapshotReader::open(folder / "pass-00000");
    ASSERT_TRUE(reader);
    const auto client = client::client_of(shard_set);
    ASSERT_TRUE(client->snapshots().resume(*reader));
    ASSERT_TRUE(client->ready());
    EXPECT_EQ(client->progress().passes, 1U);
    auto dense = parameters_of(shard_set);
    ASSERT_TRUE(client->pull_dense(dense));
    std::vector<std::uint64_t> batches{100};
    for (; batches[0] < 103; ++batches[0]) {
      for (DenseParameter& one : dense) step_of(one, batches[0]);
      ASSERT_TRUE(client->push(samples_of(0, batches[0]), 1, dense, {}));
      const std::uint32_t trainer = 0;
      expected.step({&trainer, 1}, batches);
    }
    ASSERT_TRUE(client->finish_pass({}));
    expected.end_pass();
    EXPECT_TRUE(same_bits(dense[0].values(), expected.values(0)));
    ASSERT_TRUE(client->snapshots().save(folder / "pass-00001"));
  }
  std::vector<std::uint64_t> done{7, 9};
  run_on_shard(expected, {1, 2}, done);
  as_trainers(
      group_set,
      [&](Rank& rank) {
        EXPECT_EQ(rank.client.progress().passes, 2U);
        rank.done = 7 + 2 * rank.rank;
        rank.run_pass(1 + rank.rank);
        ASSERT_TRUE(rank.client.finish_pass({}));
        expect_values(rank, expected);
        EXPECT_TRUE(rank.client.leave());
      },
      folder / "pass-00001");
}

}  // namespace
}  // namespace paddle::strategy
