// Groups that add up on each host first: the bits of the order (host, rank), and lost ranks.
#include "tests/unit/engine/group/group_fixture.h"

namespace paddle::collective {
namespace {

using Machines = std::vector<std::uint64_t>;

std::vector<GroupOptions> on_hosts(const Machines& machines, const Way& way = ways().front()) {
  auto all = options_of(static_cast<std::uint32_t>(machines.size()), way);
  for (GroupOptions& one : all) {
    one.host = 1 + machines[one.rank];
    one.sums_on_hosts = true;
  }
  return all;
}

// The sum of these ranks' gradients, or of sums with weights of 1. Nobody with a weight: zeros.
struct Sum {
  explicit Sum(std::size_t count) : values(count, 0.0F) {}
  void add(std::span<const float> x, float weight) {
    for (std::size_t i = 0; weight != 0 && i < values.size(); ++i) values[i] += weight * x[i];
    is_any = is_any || weight != 0;
  }
  std::vector<float> values;
  bool is_any = false;
};

std::vector<float> sum_by_hosts(const Machines& machines, std::size_t count,
                                std::span<const float> shares) {
  Sum total(count);
  Machines seen;
  for (const std::uint64_t machine : machines) {
    if (std::ranges::count(seen, machine) > 0) continue;
    seen.push_back(machine);
    Sum of_host(count);
    for (std::uint32_t rank = 0; rank < machines.size(); ++rank) {
      if (machines[rank] == machine) of_host.add(gradient_of(rank, count), shares[rank]);
    }
    if (of_host.is_any) total.add(of_host.values, 1);
  }
  return total.values;
}
std::vector<float> sum_by_ranks(std::size_t count, std::span<const float> shares) {
  Sum total(count);
  for (std::uint32_t rank = 0; rank < shares.size(); ++rank) {
    total.add(gradient_of(rank, count), shares[rank]);
  }
  return total.values;
}

class GroupLevels : public ::testing::TestWithParam<Way> {};
INSTANTIATE_TEST_SUITE_P(Ways, GroupLevels, ::testing::ValuesIn(ways()),
                         [](const auto& way) { return std::string(way.param.name); });

TEST_P(GroupLevels, SumsHaveTheBitsOfTheOrderOfHostsAndRanks) {
  for (const Machines& machines :
       {Machines{0, 0, 1, 1}, Machines{0, 1, 0, 1}, Machines{0, 0, 0, 1, 1},
        Machines{0, 1, 1, 2, 0}, Machines{1, 1, 1, 0}}) {
    const std::size_t size = machines.size();
    const std::size_t whole = whole_bytes_max(static_cast<std::uint32_t>(size));
    std::vector<std::vector<float>> all_shares(3, std::vector<float>(size));
    for (std::size_t rank = 0; rank < size; ++rank) {
      all_shares[0][rank] = static_cast<float>(rank + 1) / 28;
      all_shares[1][rank] = machines[rank] == 0 ? 0.0F : 0.3F;  // a host without data
    }
    all_shares[2][size - 1] = 1;
    const std::vector<std::size_t> counts{100, whole / 4, whole / 4 + 1, 150'001};
    std::vector<std::vector<float>> sums;  // of each count with each of the shares
    for (const auto& shares : all_shares) {
      for (const std::size_t count : counts) {
        const bool is_small = count * 4 <= whole;
        sums.push_back(is_small ? sum_by_ranks(count, shares)
                                : sum_by_hosts(machines, count, shares));
      }
    }
    as_groups(on_hosts(machines, GetParam()), [&](Group& group) {
      EXPECT_TRUE(group.has_levels());
      for (std::size_t i = 0; i < sums.size(); ++i) {
        const auto& shares = all_shares[i / counts.size()];
        const std::size_t count = sums[i].size();
        auto bucket = gradient_of(group.rank(), count);
        ASSERT_TRUE(group.reduce_scatter(bucket, shares).wait());
        const Range own = group.own_slice(count * 4);
        EXPECT_TRUE(same_bits(std::span(bucket).subspan(own.begin / 4, own.size() / 4),
                              std::span(sums[i]).subspan(own.begin / 4, own.size() / 4)));
        ASSERT_TRUE(group.all_gather(bucket).wait());
        EXPECT_TRUE(same_bits(bucket, sums[i])) << count << " floats on rank " << group.rank();
      }
    });
  }
}

TEST_P(GroupLevels, ManyBucketsMayBeUnderWay) {
  const Machines machines{0, 0, 1, 1, 1};
  const std::vector<float> shares(machines.size(), 0.25F);
  std::vector<std::vector<float>> sums;
  for (std::size_t i = 0; i < 12; ++i) {
    const std::size_t count = 4000 + 9000 * i;
    const bool is_small = count * 4 <= whole_bytes_max(static_cast<std::uint32_t>(machines.size()));
    sums.push_back(is_small ? sum_by_ranks(count, shares) : sum_by_hosts(machines, count, shares));
  }
  as_groups(on_hosts(machines, GetParam()), [&](Group& group) {
    std::vector<std::vector<float>> buckets;
    std::vector<Pending> pending;
    for (const auto& sum : sums) buckets.push_back(gradient_of(group.rank(), sum.size()));
    for (auto& bucket : buckets) pending.push_back(group.reduce_scatter(bucket, shares));
    gather_all(group, std::vector<std::span<float>>(buckets.begin(), buckets.end()), pending);
    for (std::size_t i = 0; i < buckets.size(); ++i) EXPECT_TRUE(same_bits(buckets[i], sums[i]));
  });
}

TEST(GroupLevelsTest, OneHostOrOneRankOnEachHasTheBitsOfOneLevel) {
  for (const Machines& machines : {Machines{0, 0, 0}, Machines{2, 1, 0}}) {
    const std::vector<float> shares{0.2F, 0.3F, 0.5F};
    as_groups(on_hosts(machines), [&](Group& group) {
      EXPECT_FALSE(group.has_levels());
      auto bucket = gradient_of(group.rank(), 50'000);
      ASSERT_TRUE(group.reduce_scatter(bucket, shares).wait());
      ASSERT_TRUE(group.all_gather(bucket).wait());
      EXPECT_TRUE(same_bits(bucket, sum_by_ranks(50'000, shares)));
    });
  }
}

// Ranks that do not agree on it have other plans; without plans, other frames.
TEST(GroupLevelsTest, ARankThatKnowsOfOneLevelOnlyEndsTheGroup) {
  auto options = on_hosts({0, 0, 1, 1});
  options[3].sums_on_hosts = false;
  as_ranks(std::move(options), [](GroupOptions own) {
    auto group = Group::join(std::move(own), soon());
    std::vector<float> bucket(20'000);
    const std::vector<float> shares(4, 1);
    Status ended;
    if (group) ended = (*group)->reduce_scatter(bucket, shares).wait();
    if (!group) ended = group.error();  // others have failed while it still joined
    ASSERT_FALSE(ended);
    EXPECT_EQ(ended.error().code, Errc::kUsage) << ended.error().message;
    EXPECT_NE(ended.error().message.find("rank 3 (node-3)"), std::string::npos)
        << ended.error().message;
  });
}

TEST_P(GroupLevels, AKilledRankIsNamedByAllOthersInTheMiddleOfABucket) {
  expect_a_killed_rank_is_named(on_hosts({0, 0, 1, 1}, GetParam()), 3);
}

}  // namespace
}  // namespace paddle::collective
