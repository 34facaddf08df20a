#include "tests/unit/engine/math/card_lanes.h"

#include "tests/unit/engine/math/run_kernel.h"

namespace paddle::kernels::device {
namespace {

// Reads what another lane wrote: only lanes that take turns give it.
struct Neighbours {
  static constexpr Shape kShape = Shape::kWarps;
  float* own = nullptr;
  float* other = nullptr;
  std::size_t count() const { return 1; }
  template <class Warp>
  void operator()(const Warp& warp, std::size_t /*index*/) const {
    warp.each(kWarpLanes, [&](std::size_t i) { own[i] = static_cast<float>(i); });
    warp.each(kWarpLanes, [&](std::size_t i) { other[i] = own[(i + 1) % kWarpLanes]; });
  }
};

TEST(WarpLanes, ShowAKernelThatReadsWhatAnotherLaneWrote) {
  if (!kHasLanes) GTEST_SKIP() << "under ThreadSanitizer";
  std::vector<float> own = nans(kWarpLanes);
  std::vector<float> of_host = nans(kWarpLanes);
  Neighbours{own.data(), of_host.data()}(HostWarp{}, 0);
  std::vector<float> other = nans(kWarpLanes);
  own = nans(kWarpLanes);
  run_in_lanes(Neighbours{own.data(), other.data()}, 1);
  EXPECT_TRUE(std::any_of(other.begin(), other.end(), [](float x) { return std::isnan(x); }));
  EXPECT_FALSE(std::isnan(of_host[0]));
}

TEST(RunKernel, AnyTwoNansAreEqual) {
  const auto of = [](std::uint32_t bits) { return std::bit_cast<float>(bits); };
  EXPECT_TRUE(equal_bits(of(0x7fffffff), of(0xffc00000))) << "a card's, and that of 0 * infinity";
  EXPECT_FALSE(equal_bits(of(0x7fffffff), of(0x7f800000)));
  EXPECT_FALSE(equal_bits(0.0F, -0.0F));
}

TEST(WarpLanes, AddUpAsTheHostsDo) {
  for (const std::size_t width : kWidths) {
    const std::vector<float> x = normals(1, width);
    const auto term = [&](std::size_t i) { return x[i]; };
    EXPECT_EQ(HostWarp{}.sum(width, term), lane_sum(width, term));
  }
}

}  // namespace
}  // namespace paddle::kernels::device
