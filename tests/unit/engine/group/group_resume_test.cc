// Groups that are killed and go on from their last snapshot.
#include "tests/unit/engine/group/group_client_fixture.h"

namespace paddle::strategy {
namespace {

struct KilledCase {
  std::string method;
  std::uint32_t trainers;
};
void PrintTo(const KilledCase& one, std::ostream* out) {
  *out << one.method << ", " << one.trainers << " trainers";
}

class KilledGroup : public testing::TestWithParam<KilledCase> {};

// The reference is the same job on one shard without a kill.
TEST_P(KilledGroup, GoesOnFromItsSnapshotWithTheBitsOfAShard) {
  const KilledCase& one = GetParam();
  const auto set = set_of(one.method, kSliced, one.trainers);
  const std::vector<std::uint64_t> uneven{3, 0, 5, 1};
  const std::vector<std::uint64_t> batches(uneven.begin(), uneven.begin() + one.trainers);
  OnShard shard(set);
  run_on_shard(shard, batches, 2);
  const test::TemporaryFolder folder;
  as_trainers(set, [&](Rank& rank) {
    run_pass_and_lose(one.trainers - 1, rank, batches[rank.rank], folder / "pass-00000");
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
        expect_values(rank, shard);
        EXPECT_TRUE(rank.client.leave());
      },
      folder / "pass-00000");
}

std::vector<KilledCase> killed_cases() {
  std::vector<KilledCase> all;
  for (const optim::Method& method : optim::methods()) {
    for (const std::uint32_t trainers : {1U, 2U, 3U, 4U})
      all.push_back({std::string(method.name), trainers});
  }
  return all;
}
INSTANTIATE_TEST_SUITE_P(Methods, KilledGroup, testing::ValuesIn(killed_cases()),
                         [](const auto& one) {
                           return one.param.method + "With" + std::to_string(one.param.trainers);
                         });

}  // namespace
}  // namespace paddle::strategy
