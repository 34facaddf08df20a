// Trainers whose ranks add up on each host first: the bits of that order, uneven data, snapshots,
// and jobs that are killed, or go on in the other order.
#include "tests/unit/engine/group/group_client_fixture.h"

namespace paddle::strategy {
namespace {

struct HostCase {
  std::string name;
  Nodes hosts;
  std::vector<std::uint64_t> sizes = kSliced;
  std::vector<std::uint64_t> batches = {3, 0, 5, 1, 2};
  wire::Merge merge = wire::MERGE_MEAN;

  std::uint32_t trainers() const {
    std::size_t count = 0;
    for (const auto& host : hosts) count += host.size();
    return static_cast<std::uint32_t>(count);
  }
  wire::ParameterSet set(const std::string& method) const {
    auto set = set_of(method, sizes, trainers());
    set.set_merge(merge);
    return set;
  }
  std::vector<std::uint64_t> of_pass() const {
    return {batches.begin(), batches.begin() + trainers()};
  }
};
void PrintTo(const HostCase& one, std::ostream* out) {
  *out << one.name;
}

// The job on one shard, which gets the gradients of long buckets summed by hosts.
class OnHosts final : public OnShard {
 public:
  explicit OnHosts(const HostCase& of, const wire::ParameterSet& set)
      : OnShard(set), hosts_(of.hosts), layout_(set, set.num_trainers()) {}

 private:
  std::span<const float> merge(std::span<const std::uint32_t> trainers,
                               std::span<const std::vector<float>> gradients,
                               std::span<const pserver::Push* const> pushes) override {
    const auto flat = OnShard::merge(trainers, gradients, pushes);
    sum_.assign(flat.begin(), flat.end());
    double total = 0;
    for (const auto* const push : pushes) total += static_cast<double>(push->samples);
    std::vector<float> shares;
    for (const auto* const push : pushes) {
      shares.push_back(set().merge() == wire::MERGE_SUM
                           ? 1.0F
                           : static_cast<float>(static_cast<double>(push->samples) / total));
    }
    std::vector<std::vector<std::size_t>> pushed;  // places in the round, by host
    for (const auto& host : hosts_) {
      std::vector<std::size_t>& places = pushed.emplace_back();
      for (std::size_t i = 0; i < trainers.size(); ++i) {
        if (std::ranges::count(host, trainers[i]) > 0) places.push_back(i);
      }
    }
    std::uint64_t offset = 0;
    for (const std::uint32_t parameter : layout_.dense()) {
      const ElementRange all = layout_.parameter(parameter);
      for (std::uint64_t at = all.begin; at < all.end; ++at, ++offset) {
        if (layout_.is_everyones(at / kBucketElements) || pushes.size() == 1) continue;
        float sum = 0;
        for (const auto& places : pushed) {
          float of_host = 0;
          for (const std::size_t i : places) of_host += shares[i] * gradients[i][offset];
          if (!places.empty()) sum += of_host;
        }
        sum_[offset] = sum;
      }
    }
    return sum_;
  }

  Nodes hosts_;
  GroupLayout layout_;
  std::vector<float> sum_;
};

std::vector<collective::GroupOptions> options_on(
    const Nodes& hosts, std::uint32_t trainers,
    const collective::Way& way = collective::ways().front()) {
  auto all = collective::options_of(trainers, way);
  for (std::size_t host = 0; host < hosts.size(); ++host) {
    for (const std::uint32_t rank : hosts[host]) {
      all[rank].host = 1 + host;
      all[rank].sums_on_hosts = true;
    }
  }
  return all;
}

class HostSums : public testing::TestWithParam<HostCase> {};

TEST_P(HostSums, HaveTheBitsOfTheirOrderWithUnevenData) {
  const HostCase& one = GetParam();
  const auto set = one.set("adam");
  const auto batches = one.of_pass();
  OnHosts expected(one, set);
  const auto done = run_on_shard(expected, batches, 2);
  const test::TemporaryFolder folder;
  as_trainers(set, options_on(one.hosts, one.trainers()), [&](Rank& rank) {
    for (int pass = 0; pass < 2; ++pass) {
      rank.run_pass(batches[rank.rank]);
      ASSERT_TRUE(rank.client.finish_pass({}));
    }
    EXPECT_EQ(rank.client.progress().samples, expected.samples());
    expect_values(rank, expected);
    if (rank.rank + 1 == one.trainers()) {  // perhaps one that owns nothing
      EXPECT_TRUE(rank.client.announce_busy("saving"));
      const Status saved = rank.client.snapshots().save(folder / "pass-00001");
      EXPECT_TRUE(saved) << saved.error().message;
    }
    rank.meet();
    EXPECT_TRUE(rank.client.leave());
  });
  const auto reader = snapshot::SnapshotReader::open(folder / "pass-00001");
  ASSERT_TRUE(reader) << reader.error().message;
  EXPECT_EQ(reader->info().trainer_cursors, done);
  expect_saved(*reader, set, expected);
}

const std::vector<HostCase>& host_cases() {
  static const std::vector<HostCase> all{
      {"TwoAndTwo", {{0, 1}, {2, 3}}},
      {"TwoAndTwoCarried", {{0, 1}, {2, 3}}, kSmall},
      {"TwoAndTwoOfManyBuckets", {{0, 1}, {2, 3}}, kManyBuckets},
      {"WithASmallLastBucket", {{0, 1}, {2, 3}}, {kBucketElements, 1000}},
      {"ThreeAndTwo", {{0, 1, 2}, {3, 4}}},
      {"TwoAndThree", {{0, 1}, {2, 3, 4}}},
      {"OneAndTwo", {{1}, {0, 2}}},
      {"RoundAndRound", {{0, 3}, {1, 4}, {2}}},
      {"OneOnEach", {{0}, {1}, {2}}},
      {"Alike", {{0, 1}, {2, 3}}, kSliced, {4, 4, 4, 4}},
      {"Sum", {{0, 1}, {2, 3}}, kSliced, {4, 3, 4, 2}, wire::MERGE_SUM},
      {"HostWithoutData", {{0, 1}, {2, 3}}, kSliced, {0, 0, 2, 1}}};
  return all;
}
INSTANTIATE_TEST_SUITE_P(Hosts, HostSums, testing::ValuesIn(host_cases()),
                         [](const auto& one) { return one.param.name; });

// Otherwise the tests above prove nothing.
TEST(HostSumsTest, AreNotThoseOfTheOrderOfRanks) {
  const HostCase one{"", {{0, 1}, {2, 3}}};
  const auto set = one.set("sgd");
  OnHosts by_hosts(one, set);
  OnShard by_ranks(set);
  for (OnShard* const shard : {static_cast<OnShard*>(&by_hosts), &by_ranks}) {
    run_on_shard(*shard, {3, 3, 3, 3});
  }
  EXPECT_FALSE(same_bits(by_hosts.values(0), by_ranks.values(0)));
}

class HostWays : public testing::TestWithParam<collective::Way> {};
INSTANTIATE_TEST_SUITE_P(Ways, HostWays, testing::ValuesIn(collective::ways()),
                         [](const auto& way) { return std::string(way.param.name); });

// The last trainer dies in the second pass; all go back to the snapshot of the first.
TEST_P(HostWays, AKilledJobGoesOnWithTheBitsOfOneThatNobodyDisturbed) {
  const HostCase one{"", {{0, 1, 2}, {3, 4}}};
  const auto set = one.set("adam");
  const auto batches = one.of_pass();
  OnHosts expected(one, set);
  run_on_shard(expected, batches, 2);
  const test::TemporaryFolder folder;
  as_trainers(set, options_on(one.hosts, 5, GetParam()), [&](Rank& rank) {
    run_pass_and_lose(4, rank, batches[rank.rank], folder / "pass-00000");
  });
  as_trainers(
      set, options_on(one.hosts, 5, GetParam()),
      [&](Rank& rank) {
        rank.done = batches[rank.rank];
        rank.run_pass(batches[rank.rank]);
        ASSERT_TRUE(rank.client.finish_pass({}));
        expect_values(rank, expected);
        EXPECT_TRUE(rank.client.leave());
      },
      folder / "pass-00000");
}

// A snapshot is as any other: the same job goes on in the order of ranks, and back.
TEST(HostSumsTest, AJobGoesOnInTheOrderOfRanksAndBack) {
  const HostCase one{"", {{0, 1}, {2, 3}}};
  const auto set = one.set("adam");
  const test::TemporaryFolder folder;
  std::string resumed;
  for (int pass = 0; pass < 3; ++pass) {
    auto options = pass == 1 ? collective::options_of(4) : options_on(one.hosts, 4);
    // The same snapshot, on a shard.
    const std::string saved = folder / fmt::format("pass-{:05}", pass);
    std::unique_ptr<OnShard> expected;
    if (pass == 1) expected = std::make_unique<OnShard>(set);
    if (pass != 1) expected = std::make_unique<OnHosts>(one, set);
    if (!resumed.empty()) expected->load(resumed);
    std::vector<std::uint64_t> done(4, 10 * static_cast<std::uint64_t>(pass));
    run_on_shard(*expected, {2, 4, 3, 3}, done);
    as_trainers(
        set, std::move(options),
        [&](Rank& rank) {
          rank.done = 10 * static_cast<std::uint64_t>(pass);
          rank.run_pass(std::vector{2U, 4U, 3U, 3U}[rank.rank]);
          ASSERT_TRUE(rank.client.finish_pass({}));
          expect_values(rank, *expected);
          if (rank.rank == 0) {
            EXPECT_TRUE(rank.client.snapshots().save(saved));
          }
          EXPECT_TRUE(rank.client.leave());
        },
        resumed);
    resumed = saved;
  }
}

TEST(HostSumsTest, TrainersThatDoNotAgreeOnTheOrderAreNamedBeforeASum) {
  auto options = options_on({{0, 1}, {2, 3}}, 4);
  options[2].sums_on_hosts = false;
  as_trainers(set_of("sgd", kSliced, 4), std::move(options), [](Rank& rank) {
    const Status pushed = rank.push();
    ASSERT_FALSE(pushed);
    EXPECT_EQ(pushed.error().code, Errc::kUsage);
    EXPECT_NE(pushed.error().message.find("rank 2 (node-2)"), std::string::npos)
        << pushed.error().message;
    EXPECT_NE(pushed.error().message.find("trains plan"), std::string::npos);
  });
}

}  // namespace
}  // namespace paddle::strategy
