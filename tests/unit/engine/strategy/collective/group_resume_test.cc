// Groups that are killed and go on from their last snapshot.
#include "tests/unit/engine/strategy/collective/group_client_fixture.h"

namespace paddle::strategy {
namespace {

struct Case {
  std::string method;
  std::uint32_t trainers;
};

class KilledGroup : public testing::TestWithParam<Case> {};

// Target 6: as a shard that nobody disturbed.
TEST_P(KilledGroup, GoesOnFromItsSnapshotWithTheBitsOfAShard) {
  const Case& one = GetParam();
  const auto set = set_of(one.method, kSliced, one.trainers);
  const std::vector<std::uint64_t> uneven{3, 0, 5, 1};
  const std::vector<std::uint64_t> batches(uneven.begin(), uneven.begin() + one.trainers);
  OnShard shard(set);
  std::vector<std::uint64_t> done(one.trainers);
  run_on_shard(shard, batches, done);
  run_on_shard(shard, batches, done);
  const test::TemporaryFolder folder;
  const std::uint32_t victim = one.trainers - 1;
  as_trainers(set, [&](Rank& rank) {
    rank.run_pass(batches[rank.rank]);
    ASSERT_TRUE(rank.client.finish_pass({}));
    if (rank.rank == 0) {
      EXPECT_TRUE(rank.client.snapshots().save(folder / "pass-00000"));
    }
    rank.meet();
    Status pushed = rank.push();
    if (rank.rank == victim) {
      EXPECT_TRUE(pushed);
      return;
    }
    for (int i = 0; i < 10 && pushed; ++i) pushed = rank.push();
    ASSERT_FALSE(pushed);
    const std::string name = "rank " + std::to_string(victim) + " (";
    EXPECT_NE(pushed.error().message.find(name), std::string::npos) << pushed.error().message;
  });
  as_trainers(
      set,
      [&](Rank& rank) {
        EXPECT_EQ(rank.client.progress().passes, 1U);
        rank.done = batches[rank.rank];
        rank.run_pass(batches[rank.rank]);
        ASSERT_TRUE(rank.client.finish_pass({}));
        ASSERT_TRUE(rank.client.pull_dense(rank.dense));
        EXPECT_EQ(rank.client.progress().samples, shard.samples());
        for (const DenseParameter& parameter : rank.dense) {
          EXPECT_TRUE(same_bits(parameter.values(), shard.values(parameter.parameter)))
              << "rank " << rank.rank << ", p" << parameter.parameter;
        }
        EXPECT_TRUE(rank.client.leave());
      },
      folder / "pass-00000");
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const optim::Method& method : optim::methods()) {
    for (const std::uint32_t trainers : {1U, 2U, 3U, 4U})
      all.push_back({std::string(method.name), trainers});
  }
  return all;
}
INSTANTIATE_TEST_SUITE_P(Methods, KilledGroup, testing::ValuesIn(cases()), [](const auto& one) {
  return one.param.method + "With" + std::to_string(one.param.trainers);
});

}  // namespace
}  // namespace paddle::strategy
