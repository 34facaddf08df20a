// Buckets that go between ranks as bf16.

#include "tests/unit/engine/group/group_fixture.h"

namespace paddle::collective {
namespace {

using kernels::Bf16;

std::span<float> own_part(const Group& group, std::span<float> bucket) {
  const Range own = group.own_slice(bucket.size_bytes());
  return bucket.subspan(own.begin / 4, own.size() / 4);
}

// One rank's end of a bucket that is summed again and again.
class PackedSum {
 public:
  PackedSum(Group& group, std::size_t count) : group_(group), packed_(count), residual_(count) {}

  // Its slice has the sum then.
  Status add(std::span<float> bucket, std::span<const float> shares) {
    kernels::round_with_residual(bucket.size(), bucket.data(), shares[group_.rank()],
                                 residual_.data(), packed_.data());
    return group_.reduce_scatter(bucket, shares, packed_).wait();
  }
  void forget() { std::ranges::fill(residual_, 0.0F); }
  std::span<const float> residual() const { return residual_; }

 private:
  Group& group_;
  std::vector<Bf16> packed_;
  std::vector<float> residual_;
};

class PackedOverWay : public ::testing::TestWithParam<Way> {};
INSTANTIATE_TEST_SUITE_P(Ways, PackedOverWay, ::testing::ValuesIn(ways()),
                         [](const auto& way) { return std::string(way.param.name); });

TEST_P(PackedOverWay, ASliceIsTheSumOfItsOwnersFloatsAndTheOthersRoundedOnes) {
  for (const std::uint32_t size : {2U, 3U, 5U}) {
    std::vector<float> shares;
    for (std::uint32_t rank = 0; rank < size; ++rank) {
      shares.push_back(static_cast<float>(rank) / 11);
    }
    as_groups(options_of(size, GetParam()), [&](Group& group) {
      for (const std::size_t count : {whole_bytes_max(size) / 4 + 1, std::size_t{300'001}}) {
        auto bucket = gradient_of(group.rank(), count);
        PackedSum sum(group, count);
        ASSERT_TRUE(sum.add(bucket, shares));
        std::vector<float> expected(count, 0.0F);
        for (std::uint32_t rank = 0; rank < size; ++rank) {
          const auto term = gradient_of(rank, count);
          std::vector<float> residual(count, 0.0F);
          std::vector<Bf16> q(count);
          kernels::round_with_residual(count, term.data(), shares[rank], residual.data(), q.data());
          if (rank != group.rank()) {
            kernels::add_bf16(count, q.data(), expected.data());
          } else if (shares[rank] != 0) {
            for (std::size_t i = 0; i < count; ++i) expected[i] += shares[rank] * term[i];
          }
        }
        const auto own = own_part(group, bucket);
        EXPECT_TRUE(std::ranges::equal(own, own_part(group, expected)));
        // The slices of all, rounded, reach everybody.
        std::vector<Bf16> packed(count, 7);
        const Range range = group.own_slice(count * 4);
        std::fill_n(packed.begin() + static_cast<std::ptrdiff_t>(range.begin / 4), range.size() / 4,
                    static_cast<Bf16>(100 + group.rank()));
        ASSERT_TRUE(group.all_gather(bucket, packed).wait());
        for (std::uint32_t rank = 0; rank < size; ++rank) {
          const Range slice = slice_of(count * 4, size, rank);
          const auto part = std::span(packed).subspan(slice.begin / 4, slice.size() / 4);
          EXPECT_EQ(std::ranges::count(part, 100 + rank), std::ssize(part)) << rank;
        }
      }
    });
  }
}

// A gradient whose every rounding errs to the same side.
TEST(PackedSums, Trap27TheMeanOfManyStepsIsExactBecauseWhatWasLeftOutIsMadeUpFor) {
  constexpr std::uint32_t kSize = 4;
  constexpr std::size_t kCount = whole_bytes_max(kSize) / 4 + 100;
  constexpr int kSteps = 1000;
  const std::vector<float> shares(kSize, 0.25F);
  for (const bool makes_up : {true, false}) {
    as_groups(options_of(kSize, ways()[1]), [&](Group& group) {
      const float each = 1.0037F + 0.0078125F * static_cast<float>(group.rank());
      PackedSum sum(group, kCount);
      double total = 0;
      for (int step = 0; step < kSteps; ++step) {
        if (!makes_up) sum.forget();
        std::vector<float> bucket(kCount, each);
        ASSERT_TRUE(sum.add(bucket, shares));
        const auto own = own_part(group, bucket);
        total += own.back();
        ASSERT_EQ(own.front(), own.back());
      }
      const double exact = 1.0037 + 0.0078125 * 1.5;
      const double error = std::abs(total / kSteps / exact - 1);
      if (makes_up) {
        EXPECT_LT(error, 1e-4);  // the trap allows 1e-3
      } else {
        EXPECT_GT(error, 1e-3);
      }
    });
  }
}

// One rank sends floats where another sends bf16.
TEST(PackedSums, UnlikeFormsEndTheGroupBeforeASumIsWrong) {
  as_ranks(options_of(2), [](GroupOptions options) {
    auto group = Group::join(std::move(options), soon());
    ASSERT_TRUE(group);
    constexpr std::size_t kCount = 100'000;
    std::vector<float> bucket(kCount, 1);
    std::vector<Bf16> packed(kCount);
    const bool packs = (*group)->rank() == 1;
    const std::vector<float> shares{1, 1};
    const Status summed =
        (*group)
            ->reduce_scatter(bucket, shares, packs ? std::span(packed) : std::span<Bf16>())
            .wait();
    ASSERT_FALSE(summed);
    EXPECT_EQ(summed.error().code, Errc::kUsage) << summed.error().message;
    EXPECT_NE(summed.error().message.find("rank 0 ("), std::string::npos);
    EXPECT_NE(summed.error().message.find("rank 1 ("), std::string::npos);
  });
}

}  // namespace
}  // namespace paddle::collective
