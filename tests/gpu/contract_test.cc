// Rules that a card and the tests' device keep alike.
#include <cstdint>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "tests/gpu/card_memory.h"

namespace paddle::device {
namespace {

using test::card;
using Values = std::vector<float>;

constexpr const char* kRefused = "is_pinned|not of the host|past its memory's end";

TEST(Contract, AStreamRunsInItsOrder) {
  const Stream stream = expect(Stream::open(card()));
  const auto memory = memory_of<float, Place::kCard>(card(), 3);
  const auto from = pinned<float>(card(), {1, 2, 3});
  card().launch(stream.handle(), fill(memory, 7));
  upload(card(), stream, from, memory.data());
  card().launch(stream.handle(), kernels::device::Fill{1, 9, memory.data() + 1});
  EXPECT_EQ(read(card(), stream, memory), (Values{1, 9, 3}));
}

TEST(Contract, EventsOrderStreams) {
  const Stream a = expect(Stream::open(card(), Device::Urgency::kHigh));
  const Stream b = expect(Stream::open(card()));
  const Event filled = expect(Event::make(card()));
  const Event read_out = expect(Event::make(card()));
  EXPECT_TRUE(expect(card().is_done(filled.handle()))) << "never recorded";
  constexpr std::size_t kMany = 1 << 22U;
  const auto memory = memory_of<float, Place::kCard>(card(), kMany);
  std::vector<PinnedMemory<float>> steps;
  for (int k = 0; k < 20; ++k) {
    card().wait_for(a.handle(), read_out.handle());  // never recorded when k is 0
    card().launch(a.handle(), fill(memory, static_cast<float>(k)));
    card().record(a.handle(), filled.handle());
    card().wait_for(b.handle(), filled.handle());
    steps.push_back(memory_of<float, Place::kPinned>(card(), 1));
    download(card(), b, memory.data() + kMany - 1, steps.back());
    card().record(b.handle(), read_out.handle());
  }
  expect(card().wait(read_out.handle(), in_seconds(60)));
  for (int k = 0; k < 20; ++k) EXPECT_EQ(*steps[static_cast<std::size_t>(k)].data(), k);
}

TEST(Contract, Trap35GraphsReplayWithTheValuesOfThen) {
  const Stream stream = expect(Stream::open(card()));
  const auto memory = on_card<float>(card(), stream, {0, 0, 0});
  const auto number = pinned<float>(card(), {1});
  Product product{.m = 1, .n = 1, .k = 1};
  product.a = product.b = memory.data() + 1;
  product.c = memory.data() + 2;
  product.a_stride = product.b_stride = product.c_stride = 1;
  card().multiply(stream.handle(), product);  // chooses its algorithm, which no capture may
  card().begin_capture(stream.handle());
  card().launch(stream.handle(), kernels::device::Fill{1, 7, memory.data()});
  upload(card(), stream, number, memory.data() + 1);
  card().multiply(stream.handle(), product);
  const Graph graph(card(), expect(card().end_capture(stream.handle())));
  EXPECT_EQ(read(card(), stream, memory), (Values{0, 0, 0})) << "kept, and not run";
  for (const float step : {3.0F, 4.0F}) {
    *number.data() = step;
    card().launch(stream.handle(), fill(memory, -1));
    card().replay(stream.handle(), graph.handle());
    EXPECT_EQ(read(card(), stream, memory), (Values{7, step, step * step}));
  }
}

TEST(Contract, Trap33WithoutMemoryLeftItIsNamedAndGoesOn) {
  const Stream stream = expect(Stream::open(card()));
  const auto none = card().allocate(card().card().memory_bytes * 2);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, Errc::kResource);
  EXPECT_NE(none.error().message.find(card().card().name), std::string::npos);
  const auto memory = on_card<float>(card(), stream, {5});
  card().launch(stream.handle(), fill(memory, 6));
  EXPECT_EQ(read(card(), stream, memory), Values{6});
}

TEST(ContractDeathTest, Trap36OnlyPinnedMemoryIsCopied) {
  testing::FLAGS_gtest_death_test_style = "fast";
  const Stream stream = expect(Stream::open(card()));
  const auto memory = memory_of<float, Place::kCard>(card(), 2);
  const auto host = pinned<float>(card(), {1, 2});
  float pageable[2] = {};
  const auto upload_of = [&](const float* from, std::size_t bytes) {
    card().upload(stream.handle(), reinterpret_cast<const std::byte*>(from),
                  reinterpret_cast<std::byte*>(memory.data()), bytes);
  };
  EXPECT_DEATH(upload_of(pageable, 8), kRefused);
  EXPECT_DEATH(upload_of(host.data() + 1, 8), kRefused);
  upload_of(host.data() + 1, 4);
  EXPECT_EQ(read(card(), stream, memory)[0], 2);
}

// More indices than threads at once, and a warp for each.
TEST(Contract, KernelsOfManyIndicesTakeThemAll) {
  const Stream stream = expect(Stream::open(card()));
  constexpr std::size_t kRows = 300'001;
  constexpr std::size_t kWidth = 33;
  const auto from = memory_of<float, Place::kCard>(card(), kRows * kWidth);
  const auto ones = memory_of<float, Place::kCard>(card(), kWidth);
  const auto sums = memory_of<float, Place::kCard>(card(), kRows);
  card().launch(stream.handle(), fill(from, 2));
  card().launch(stream.handle(), fill(ones, 1));
  card().launch(stream.handle(), fill(sums, std::numeric_limits<float>::quiet_NaN()));
  card().launch(stream.handle(),
                kernels::device::ThinProduct{
                    kRows, 1, kWidth, from.data(), ones.data(), {sums.data(), 1}, false});
  const Values got = read(card(), stream, sums);
  for (const float one : got) ASSERT_EQ(one, 2 * kWidth);
}

}  // namespace
}  // namespace paddle::device
