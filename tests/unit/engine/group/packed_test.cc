// Dense parameters in the trainers, with `wire = "bf16"`.
#include <mutex>

#include "tests/unit/engine/group/group_client_fixture.h"

namespace paddle::strategy {
namespace {

using PackedValues = std::vector<std::vector<float>>;  // by parameter

void as_packed(const wire::ParameterSet& set, const std::function<void(Rank&)>& work,
               const std::string& resumed = "") {
  as_trainers(set, collective::options_of(set.num_trainers(), collective::ways()[1]), work, resumed,
              std::vector(set.num_trainers(), GroupClient::Flags{.packs = true}));
}

PackedValues values_of(const Rank& rank) {
  PackedValues values;
  for (const DenseParameter& one : rank.dense) {
    const auto from = one.values();
    values.emplace_back(from.begin(), from.end());
  }
  return values;
}

bool same(const PackedValues& a, const PackedValues& b) {
  return std::ranges::equal(a, b, [](const auto& x, const auto& y) { return same_bits(x, y); });
}

// Whether all ranks had the same values in each step.
class Agreement {
 public:
  void add(std::uint64_t step, const PackedValues& values) {
    const std::scoped_lock lock(mutex_);
    const auto [place, is_new] = steps_.emplace(step, values);
    EXPECT_TRUE(is_new || same(place->second, values)) << "step " << step;
  }

 private:
  std::mutex mutex_;
  std::map<std::uint64_t, PackedValues> steps_;
};

// The root of the mean square of the differences, relative to the values'.
double distance(std::span<const float> a, std::span<const float> b) {
  double difference = 0;
  double size = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference += (double{a[i]} - b[i]) * (double{a[i]} - b[i]);
    size += double{b[i]} * b[i];
  }
  return std::sqrt(difference / size);
}

struct PackedCase {
  std::string method;
  std::uint32_t trainers;
};
void PrintTo(const PackedCase& one, std::ostream* out) {
  *out << one.method << ", " << one.trainers << " trainers";
}

class PackedReplicas : public testing::TestWithParam<PackedCase> {};

// Uneven data; the last rank has none for most of a pass.
TEST_P(PackedReplicas, HaveTheSameBitsAfterEveryStepAndStayNearAShardsValues) {
  const PackedCase& one = GetParam();
  const auto set = set_of(one.method, {600'000, 5, 9000}, one.trainers);
  std::vector<std::uint64_t> batches(one.trainers, 4);
  batches.back() = 1;
  OnShard shard(set);
  run_on_shard(shard, batches, 2);
  // A method that divides by the size of gradients takes a whole step where their sum is near 0,
  // so a rounding may turn that step round; decayed_adagrad's first steps are the longest.
  const bool divides = one.method != "sgd" && !one.method.ends_with("momentum");
  const double tolerance = divides ? 2e-2 : 1e-3;
  Agreement agreement;
  as_packed(set, [&](Rank& rank) {
    std::uint64_t step = 0;
    for (int pass = 0; pass < 2; ++pass) {
      for (std::uint64_t i = 0; i < batches[rank.rank]; ++i) {
        ASSERT_TRUE(rank.push());
        agreement.add(step + i, values_of(rank));
      }
      step += 4;
      ASSERT_TRUE(rank.client.finish_pass({}));
      agreement.add(100 + step, values_of(rank));
    }
    for (const DenseParameter& parameter : rank.dense) {
      const auto exact = shard.values(parameter.parameter);
      EXPECT_LT(distance(parameter.values(), exact), tolerance) << "p" << parameter.parameter;
    }
    // A static parameter does not move.
    EXPECT_TRUE(same_bits(rank.dense[2].values(), shard.values(2)));
    EXPECT_TRUE(rank.client.leave());
  });
}

// A whole job, which saves nothing, and one that is killed in its second pass.
TEST_P(PackedReplicas, Trap27AJobGoesOnFromItsSnapshotWithTheBitsOfOneThatWasNeverKilled) {
  const PackedCase& one = GetParam();
  const auto set = set_of(one.method, kSliced, one.trainers);
  PackedValues whole;
  as_packed(set, [&](Rank& rank) {
    for (int pass = 0; pass < 3; ++pass) {
      rank.run_pass(3 - rank.rank % 2);
      ASSERT_TRUE(rank.client.finish_pass({}));
    }
    if (rank.rank == 1) whole = values_of(rank);
    EXPECT_TRUE(rank.client.leave());
  });
  const test::TemporaryFolder folder;
  as_packed(set, [&](Rank& rank) {
    rank.run_pass(3 - rank.rank % 2);
    ASSERT_TRUE(rank.client.finish_pass({}));
    if (rank.rank == 0) {
      EXPECT_TRUE(rank.client.snapshots().save(folder / "pass-00000"));
    }
    rank.meet();
    (void)rank.push();  // and all of them die, some while others are in this step
  });
  as_packed(
      set,
      [&](Rank& rank) {
        rank.done = 3 - rank.rank % 2;
        for (int pass = 1; pass < 3; ++pass) {
          rank.run_pass(3 - rank.rank % 2);
          ASSERT_TRUE(rank.client.finish_pass({}));
        }
        EXPECT_TRUE(same(values_of(rank), whole)) << "rank " << rank.rank;
        EXPECT_TRUE(rank.client.leave());
      },
      folder / "pass-00000");
}

std::vector<PackedCase> packed_cases() {
  std::vector<PackedCase> all;
  for (const optim::Method& method : optim::methods()) all.push_back({std::string(method.name), 3});
  all.push_back({"sgd", 2});
  all.push_back({"adam", 4});
  return all;
}
INSTANTIATE_TEST_SUITE_P(Methods, PackedReplicas, testing::ValuesIn(packed_cases()),
                         [](const auto& one) {
                           return one.param.method + "With" + std::to_string(one.param.trainers);
                         });

// Stopped in the middle of a pass, it goes on as one that only paused there, and as its snapshot.
TEST(PackedJobs, AStoppedJobGoesOnAsItsSnapshot) {
  const auto set = set_of("adam", kSliced, 3);
  const test::TemporaryFolder folder;
  PackedValues at_pause;
  PackedValues whole;
  as_packed(set, [&](Rank& rank) {
    rank.run_pass(4);
    ASSERT_TRUE(rank.client.pause_pass({}));
    if (rank.rank == 2) {
      EXPECT_TRUE(rank.client.snapshots().save(folder / "stopped"));
      at_pause = values_of(rank);
    }
    rank.meet();
    rank.run_pass(3);
    ASSERT_TRUE(rank.client.finish_pass({}));
    if (rank.rank == 0) whole = values_of(rank);
    EXPECT_TRUE(rank.client.leave());
  });
  const auto reader = snapshot::SnapshotReader::open(folder / "stopped");
  ASSERT_TRUE(reader) << reader.error().message;
  as_packed(
      set,
      [&](Rank& rank) {
        EXPECT_TRUE(same(values_of(rank), at_pause));
        rank.done = 4;
        rank.run_pass(3);
        ASSERT_TRUE(rank.client.finish_pass({}));
        EXPECT_TRUE(same(values_of(rank), whole)) << "rank " << rank.rank;
        EXPECT_TRUE(rank.client.leave());
      },
      folder / "stopped");
}

// State that is saved between two steps is that of the owners, not of a rounded copy.
TEST(PackedJobs, ASnapshotHasTheOwnersValues) {
  const auto set = set_of("sgd", kSliced, 2);
  const test::TemporaryFolder folder;
  PackedValues settled;
  as_packed(set, [&](Rank& rank) {
    rank.run_pass(3);
    if (rank.rank == 0) {
      EXPECT_TRUE(rank.client.snapshots().save(folder / "within"));
    }
    const PackedValues rounded = values_of(rank);
    ASSERT_TRUE(rank.client.finish_pass({}));
    EXPECT_FALSE(same(values_of(rank), rounded));
    if (rank.rank == 0) settled = values_of(rank);
    EXPECT_TRUE(rank.client.leave());
  });
  const auto reader = snapshot::SnapshotReader::open(folder / "within");
  ASSERT_TRUE(reader) << reader.error().message;
  std::vector<float> value, state;
  std::uint64_t count = 0;
  ASSERT_TRUE(reader->read_dense(set.parameters(0).name(), value, state, count));
  optim::swap_average(value, state);
  EXPECT_TRUE(same_bits(value, settled[0]));
}

// Trap 5 of this wire.
TEST(PackedJobs, UnlikeWiresAreFoundInTheFirstStep) {
  const auto check = [](Rank& rank) {
    const PackedValues before = values_of(rank);
    const Status pushed = rank.push();
    ASSERT_FALSE(pushed);
    EXPECT_EQ(pushed.error().code, Errc::kUsage) << pushed.error().message;
    for (const char* const name : {"rank 0 (", "rank 1 ("}) {
      EXPECT_NE(pushed.error().message.find(name), std::string::npos) << pushed.error().message;
    }
    EXPECT_TRUE(same(values_of(rank), before));
  };
  as_trainers(set_of("sgd", kSliced, 2), collective::options_of(2), check, "",
              {{}, {.packs = true}});
}

TEST(PackedJobs, AGradientThatIsNotFiniteIsReportedAsEver) {
  const auto set = set_of("sgd", kSliced, 2);
  for (const float bad : {std::nanf(""), std::numeric_limits<float>::infinity()}) {
    as_packed(set, [&](Rank& rank) {
      ASSERT_TRUE(rank.push());
      for (DenseParameter& one : rank.dense) std::ranges::fill(one.gradients(), 1.0F);
      if (rank.rank == 1) rank.dense[0].gradients()[8000] = bad;
      const Status pushed = rank.client.push(1, 1, rank.dense, {});
      ASSERT_FALSE(pushed);
      EXPECT_NE(pushed.error().message.find("trainer 1 pushed a gradient of 'p0' that is not"),
                std::string::npos)
          << pushed.error().message;
    });
  }
}

TEST(PackedJobs, WhatRoundingsLeaveOutCountsAsMemory) {
  const auto set = set_of("sgd", {100'000, 5}, 2);
  for (const bool packs : {false, true}) {
    collective::as_ranks(collective::options_of(2), [&](collective::GroupOptions options) {
      auto group = collective::Group::join(std::move(options), collective::soon());
      ASSERT_TRUE(group) << group.error().message;
      constexpr std::uint64_t kElements = 100'032;
      const auto client = GroupClient::create(set, *std::move(group),
                                              {.bytes_max = 4 * 4 * kElements}, {.packs = packs});
      EXPECT_EQ(bool(client), !packs);
      if (packs) {
        EXPECT_EQ(client.error().code, Errc::kResource) << client.error().message;
      }
    });
  }
}

// One that has nobody to send to rounds nothing.
TEST(PackedJobs, OneTrainerHasTheBitsOfAShard) {
  const auto set = set_of("momentum", kSliced, 1);
  OnShard shard(set);
  run_on_shard(shard, {3});
  as_packed(set, [&](Rank& rank) {
    rank.run_pass(3);
    EXPECT_TRUE(same_bits(rank.dense[0].values(), shard.values(0)));
    ASSERT_TRUE(rank.client.finish_pass({}));
    EXPECT_TRUE(rank.client.leave());
  });
}

}  // namespace
}  // namespace paddle::strategy
