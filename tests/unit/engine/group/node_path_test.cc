// Trainers of a node that push one sum: the bits of the documented order, uneven data, snapshots.
#include <latch>

#include "tests/unit/engine/group/node_fixture.h"

namespace paddle::strategy {
namespace {

struct NodeCase {
  std::string name;
  Nodes nodes;
  std::vector<std::uint64_t> sizes = kSliced;
  std::vector<std::uint64_t> batches = {3, 0, 5, 1};
  wire::Merge merge = wire::MERGE_MEAN;

  std::uint32_t trainers() const {
    std::size_t count = 0;
    for (const auto& node : nodes) count += node.size();
    return static_cast<std::uint32_t>(count);
  }
};
void PrintTo(const NodeCase& one, std::ostream* out) {
  *out << one.name;
}

class NodeSums : public testing::TestWithParam<NodeCase> {};

// The values that sums in the order of (node, trainer) lead to, and a snapshot as without groups.
TEST_P(NodeSums, HaveTheBitsOfTheirOrder) {
  const NodeCase& one = GetParam();
  auto set = node_set("adam", one.sizes, one.trainers());
  set.set_merge(one.merge);
  const std::vector<std::uint64_t> batches(one.batches.begin(),
                                           one.batches.begin() + one.trainers());
  OnShard reference(set, 1, one.nodes);
  const auto done = run_on_shard(reference, batches, 2);
  const test::TemporaryFolder folder;
  on_nodes(set, one.nodes, [&](Rank& rank) {
    for (int pass = 0; pass < 2; ++pass) {
      rank.run_pass(batches[rank.rank]);
      const auto totals = rank.client.finish_pass({{rank.rank + 1ULL}, {0.5}});
      ASSERT_TRUE(totals) << totals.error().message;
      EXPECT_EQ(totals->tally.counts[0], one.trainers() * (one.trainers() + 1ULL) / 2);
      ASSERT_TRUE(rank.client.pull_dense(rank.dense));
    }
    EXPECT_EQ(rank.client.progress().samples, reference.samples());
    expect_values(rank, reference);
    if (rank.rank == 0) {
      EXPECT_TRUE(rank.client.announce_busy("saving"));
      const Status saved = rank.client.snapshots().save(folder / "pass-00001");
      EXPECT_TRUE(saved) << saved.error().message;
    }
    rank.meet();
    const Status left = rank.client.leave();
    EXPECT_TRUE(left) << left.error().message;
  });
  const auto reader = snapshot::SnapshotReader::open(folder / "pass-00001");
  ASSERT_TRUE(reader) << reader.error().message;
  EXPECT_EQ(reader->info().trainer_cursors, done);
  EXPECT_EQ(reader->info().samples, reference.samples());
  expect_saved(*reader, set, reference);
}

const std::vector<NodeCase>& node_cases() {
  static const std::vector<NodeCase> all{
      {"Two", {{0, 1}}},
      {"Four", {{0, 1, 2, 3}}},
      {"FourSmall", {{0, 1, 2, 3}}, kSmall},
      {"FourOfManyBuckets", {{0, 1, 2, 3}}, kManyBuckets},
      {"TwoAndTwo", {{0, 1}, {2, 3}}},
      {"TwoAndTwoSmall", {{0, 1}, {2, 3}}, kSmall},
      {"Mixed", {{0, 3}, {1, 2}}, kSliced, {2, 4, 3, 5}},
      {"OneAndTwo", {{1}, {0, 2}}},
      {"OneAndOne", {{0}, {1}}},
      {"One", {{0}}},
      {"Alike", {{0, 1}, {2, 3}}, kSliced, {4, 4, 4, 4}},
      {"Sum", {{0, 1}, {2, 3}}, kSliced, {4, 3, 4, 2}, wire::MERGE_SUM},
      {"NodeWithoutData", {{0, 1}, {2, 3}}, kSliced, {0, 0, 2, 1}}};
  return all;
}
INSTANTIATE_TEST_SUITE_P(Nodes, NodeSums, testing::ValuesIn(node_cases()),
                         [](const auto& one) { return one.param.name; });

// One node, or one trainer on each: nothing is added in another order.
TEST(NodePath, OneNodeHasTheBitsOfSync) {
  const auto set = node_set("momentum", kSliced, 3);
  OnShard sync(set);
  run_on_shard(sync, {4, 2, 3});
  for (const Nodes& nodes : {Nodes{{0, 1, 2}}, Nodes{{0}, {1}, {2}}}) {
    on_nodes(set, nodes, [&](Rank& rank) {
      const std::vector<std::uint64_t> batches{4, 2, 3};
      rank.run_pass(batches[rank.rank]);
      ASSERT_TRUE(rank.client.finish_pass({}));
      ASSERT_TRUE(rank.client.pull_dense(rank.dense));
      EXPECT_TRUE(same_bits(rank.dense[0].values(), sync.values(0)));
      EXPECT_TRUE(rank.client.leave());
    });
  }
}

class NodeWays : public testing::TestWithParam<collective::Way> {};
INSTANTIATE_TEST_SUITE_P(Ways, NodeWays, testing::ValuesIn(collective::ways()),
                         [](const auto& way) { return std::string(way.param.name); });

// A stop that one asks for is heard after the same batch, and the job goes on with or without
// groups.
TEST_P(NodeWays, AStoppedJobGoesOn) {
  const Nodes nodes{{0, 1}, {2, 3}};
  const auto set = node_set("adam", kSliced, 4);
  const std::vector<std::uint64_t> batches{6, 1, 4, 5};
  OnShard reference(set, 1, nodes);
  run_on_shard(reference, batches);
  const test::TemporaryFolder folder;
  const auto run = [&](Rank& rank) {
    const std::uint64_t of_pass = batches[rank.rank];
    rank.done = rank.client.progress().batches;
    while (rank.done < of_pass && !rank.client.stop_asked()) {
      if (rank.rank == 3 && rank.done == 1) rank.client.ask_to_stop();
      ASSERT_TRUE(rank.push());
    }
  };
  on_nodes(
      set, nodes,
      [&](Rank& rank) {
        run(rank);
        const bool stops = rank.client.stop_asked();
        const auto totals = stops ? rank.client.pause_pass({}) : rank.client.finish_pass({});
        ASSERT_TRUE(totals) << totals.error().message;
        EXPECT_TRUE(totals->paused);
        EXPECT_EQ(rank.done, std::min<std::uint64_t>(2, batches[rank.rank]));
        if (rank.rank == 0) {
          EXPECT_TRUE(rank.client.announce_busy("saving"));
          EXPECT_TRUE(rank.client.snapshots().save(folder / "stop"));
        }
        EXPECT_TRUE(rank.client.leave());
      },
      "", GetParam());
  const auto reader = snapshot::SnapshotReader::open(folder / "stop");
  ASSERT_TRUE(reader) << reader.error().message;
  EXPECT_EQ(reader->info().pass_batches, (std::vector<std::uint64_t>{2, 1, 2, 2}));
  on_nodes(
      set, nodes,
      [&](Rank& rank) {
        rank.done = rank.client.progress().batches;
        rank.run_pass(batches[rank.rank] - rank.done);
        ASSERT_TRUE(rank.client.finish_pass({}));
        ASSERT_TRUE(rank.client.pull_dense(rank.dense));
        expect_values(rank, reference);
        EXPECT_TRUE(rank.client.leave());
      },
      folder / "stop", GetParam());
}

TEST(NodePath, NamesTheTrainerAndTheParameterOfANaN) {
  std::latch all_are_ready(3);
  on_nodes(node_set("sgd", kSliced, 3), {{0}, {1, 2}}, [&](Rank& rank) {
    all_are_ready.arrive_and_wait();
    Status pushed;
    if (rank.rank == 2) {
      for (DenseParameter& one : rank.dense) fill_gradient(one.gradients(), 2, 1, one.parameter);
      rank.dense[1].gradients()[3] = std::nanf("");
      pushed = rank.client.push(1, 1, rank.dense, {});
    } else {
      pushed = rank.push();
    }
    ASSERT_FALSE(pushed);
    rank.client.abandon(pushed.error());
    EXPECT_NE(pushed.error().message.find("trainer 2 pushed a gradient of 'p1' that is not finite"),
              std::string::npos)
        << pushed.error().message;
  });
}

TEST(NodePath, AShardRefusesTheSumOfANodeInAJobWithoutThem) {
  auto set = node_set("sgd", kSmall, 1);
  set.set_node_groups(false);
  const Ports ports(set);
  const auto shards = ports.join(set, 0);
  ASSERT_TRUE(shards->ready());
  auto dense = parameters_of(set);
  ASSERT_TRUE(shards->pull(std::span(dense)));
  const Status pushed =
      shards->push({.batches = 1, .samples = 3, .cost = 1, .node_samples = 3}, std::span(dense));
  ASSERT_FALSE(pushed);
  EXPECT_NE(pushed.error().message.find("trainer 0 pushed 3 samples of its node"),
            std::string::npos)
      << pushed.error().message;
}

}  // namespace
}  // namespace paddle::strategy
