// Products, graphs and cards of the fake device.
#include <bit>
#include <cmath>
#include <cstdint>

#include <gtest/gtest.h>

#include "base/rng.h"
#include "tests/support/device/fake_driver.h"
#include "tests/unit/engine/gpu/device_fixture.h"

namespace paddle::device {
namespace {

using test::FakeDevice;
using Values = std::vector<float>;

Values random_values(std::size_t count, std::uint64_t seed) {
  Rng rng(seed);
  Values values(count);
  for (float& x : values) x = static_cast<float>(rng.uniform() - 0.5);
  return values;
}

// m, n and k with a matrix wider than its rows, by the bits of `form`.
void expect_product(unsigned form) {
  constexpr std::size_t m = 3, n = 5, k = 7, wide = 9;
  FakeDevice device;
  const Stream stream = expect(Stream::open(device));
  const Values a = random_values(wide * wide, form), b = random_values(wide * wide, form + 100);
  const Values c = random_values(m * wide, form + 200), bias = random_values(n, form + 300);
  const auto card_a = on_card(device, stream, a), card_b = on_card(device, stream, b);
  const auto card_c = on_card(device, stream, c), card_bias = on_card(device, stream, bias);
  const Product product{.transpose_a = (form & 1U) != 0,
                        .transpose_b = (form & 2U) != 0,
                        .m = m,
                        .n = n,
                        .k = k,
                        .precision = Precision::kFloat32,
                        .a = card_a.data(),
                        .a_stride = wide,
                        .b = card_b.data(),
                        .b_stride = wide,
                        .c = card_c.data(),
                        .c_stride = wide,
                        .accumulate = (form & 4U) != 0,
                        .bias = (form & 8U) != 0 ? card_bias.data() : nullptr,
                        .relu = (form & 16U) != 0};
  device.multiply(stream.handle(), product);
  const Values got = read(device, stream, card_c);
  for (std::size_t i = 0; i < m; ++i) {
    for (std::size_t j = 0; j < wide; ++j) {
      double want = c[i * wide + j];
      if (j < n) {
        if (!product.accumulate) want = 0;
        for (std::size_t l = 0; l < k; ++l) {
          want += static_cast<double>(a[product.transpose_a ? l * wide + i : i * wide + l]) *
                  static_cast<double>(b[product.transpose_b ? j * wide + l : l * wide + j]);
        }
        if (product.bias != nullptr) want += bias[j];
        if (product.relu) want = std::max(want, 0.0);
      }
      EXPECT_NEAR(got[i * wide + j], want, 1e-6) << form << " " << i << " " << j;
    }
  }
}

TEST(FakeProduct, IsTheProduct) {
  for (unsigned form = 0; form < 32; ++form) expect_product(form);
}

TEST(FakeProduct, OfNothingIsZero) {
  FakeDevice device;
  const Stream stream = expect(Stream::open(device));
  const auto c = on_card<float>(device, stream, {5});
  Product product{.m = 1, .n = 1};
  product.c = c.data();
  product.c_stride = 1;
  product.accumulate = true;
  device.multiply(stream.handle(), product);
  EXPECT_EQ(read(device, stream, c), Values{5});
  product.accumulate = false;
  device.multiply(stream.handle(), product);
  EXPECT_EQ(read(device, stream, c), Values{0});
}

template <class T>
float square(T x, Precision precision) {
  FakeDevice device;
  const Stream stream = expect(Stream::open(device));
  const auto a = on_card<T>(device, stream, {x}), b = on_card<T>(device, stream, {x});
  const auto c = on_card<float>(device, stream, {0});
  Product product{.m = 1, .n = 1, .k = 1, .precision = precision};
  product.a = a.data();
  product.b = b.data();
  product.c = c.data();
  product.a_stride = product.b_stride = product.c_stride = 1;
  device.multiply(stream.handle(), product);
  return read(device, stream, c)[0];
}

TEST(FakeProduct, Trap42TensorFloat32LosesWhatFloat32Keeps) {
  constexpr float x = 1 + 0x1p-12F;
  EXPECT_EQ(square(x, Precision::kFloat32), x * x);
  EXPECT_EQ(square(x, Precision::kTensorFloat32), 1);
  EXPECT_EQ(square(1 + 0x1p-10F, Precision::kTensorFloat32), (1 + 0x1p-10F) * (1 + 0x1p-10F));
  EXPECT_EQ(square(1 + 0x1.8p-10F, Precision::kTensorFloat32), (1 + 0x1p-9F) * (1 + 0x1p-9F));
  EXPECT_EQ(square(INFINITY, Precision::kTensorFloat32), INFINITY);
}

TEST(FakeProduct, Bfloat16IsTheUpperHalfOfAFloat) {
  constexpr float x = -1.5F;
  const auto half = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(x) >> 16U);
  EXPECT_EQ(square<std::uint16_t>(half, Precision::kBfloat16), 2.25F);
}

TEST(FakeGraph, ReplaysItsOrdersWithTheValuesOfThen) {
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    FakeDevice device(with_seed(seed));
    const Stream stream = expect(Stream::open(device));
    const auto memory = on_card<float>(device, stream, {0, 0});
    const auto number = pinned<float>(device, {1});
    device.begin_capture(stream.handle());
    device.launch(stream.handle(), kernels::device::Fill{1, 7, memory.data()});
    upload(device, stream, number, memory.data() + 1);
    const Graph graph(device, expect(device.end_capture(stream.handle())));
    EXPECT_EQ(read(device, stream, memory), (Values{0, 0})) << "kept, and not run";
    for (const float step : {3.0F, 4.0F}) {
      device.launch(stream.handle(), fill(memory, -1));
      *number.data() = step;
      device.replay(stream.handle(), graph.handle());
      EXPECT_EQ(read(device, stream, memory), (Values{7, step}));
    }
    EXPECT_EQ(device.counts().replays, 2U);
    EXPECT_EQ(device.counts().kernels, 3U);
  }
}

TEST(FakeGraph, OfABrokenDeviceDoesNotComeToBe) {
  FakeDevice device;
  const Stream stream = expect(Stream::open(device));
  const auto memory = memory_of<float, Place::kCard>(device, 1);
  device.fail_order(1);
  device.launch(stream.handle(), fill(memory, 1));
  EXPECT_FALSE(finish(device, stream));
  device.begin_capture(stream.handle());
  device.launch(stream.handle(), fill(memory, 1));
  EXPECT_FALSE(device.end_capture(stream.handle()));
}

TEST(FakeDriver, HasItsCards) {
  test::FakeDriver driver(2, 4096);
  const auto cards = expect(driver.cards());
  ASSERT_EQ(cards.size(), 2U);
  EXPECT_EQ(cards[1].index, 1U);
  EXPECT_EQ(cards[1].uuid, "GPU-fake-1");
  EXPECT_EQ(cards[1].memory_bytes, 4096U);
  EXPECT_EQ(driver.describe(), "fake driver of 2 cards in host memory");
  test::FakeDevice* opened = nullptr;
  driver.on_open([&](FakeDevice& device) { opened = &device; });
  const auto device = expect(driver.open(1));
  EXPECT_EQ(device->card().uuid, "GPU-fake-1");
  EXPECT_EQ(opened, device.get());
  const auto none = driver.open(2);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, Errc::kUsage);
  EXPECT_EQ(none.error().message, "there is no card 2: this machine has 2");
}

TEST(FakeDriver, FailsAsRealOnesDo) {
  test::FakeDriver driver(1);
  driver.fail(test::old_driver());
  EXPECT_EQ(driver.cards().error().code, Errc::kVersion);
  EXPECT_EQ(driver.open(0).error().code, Errc::kVersion);
  EXPECT_EQ(driver.describe(), test::old_driver().message);
  for (const Error& error : {test::no_driver(), test::missing_library()}) {
    driver.fail(error);
    EXPECT_EQ(driver.cards().error().code, Errc::kResource);
  }
  driver.fail({});
  EXPECT_TRUE(driver.cards());
  EXPECT_EQ(test::FakeDriver(0).cards().error().message, "this machine has no card");
}

}  // namespace
}  // namespace paddle::device
