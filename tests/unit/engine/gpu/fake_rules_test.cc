// Rules of devices, which the fake one watches over.
#include <cstring>
#include <thread>

#include <gtest/gtest.h>

#include "tests/unit/engine/gpu/device_fixture.h"

namespace paddle::device {
namespace {

using kernels::device::Fill;
using test::FakeDevice;

class FakeRules : public testing::Test {
 protected:
  void TearDown() override { expect(finish(device_, stream_)); }

  FakeDevice device_;
  const Stream stream_ = expect(Stream::open(device_));
  CardMemory<float> memory_ = on_card<float>(device_, stream_, {1, 2});
  PinnedMemory<float> host_ = pinned<float>(device_, {3, 4});
  const Event event_ = expect(Event::make(device_));

  static std::byte* bytes(float* from) { return reinterpret_cast<std::byte*>(from); }
  void launch(std::size_t size, float* to) { device_.launch(stream_.handle(), Fill{size, 1, to}); }
};

using FakeRulesDeathTest = FakeRules;

TEST_F(FakeRulesDeathTest, TheHostTouchesNoMemoryOfTheCard) {
  EXPECT_DEATH(std::printf("%g", static_cast<double>(*memory_.data())), "");
  EXPECT_DEATH(*memory_.data() = 1, "");
  launch(1, memory_.data());
  expect(finish(device_, stream_));
  EXPECT_DEATH(*memory_.data() = 1, "");
}

TEST_F(FakeRulesDeathTest, NobodyGoesPastMemorysEnd) {
  const auto whole = memory_of<float, Place::kCard>(device_, 4);
  EXPECT_DEATH(
      {
        launch(5, whole.data());
        expect(finish(device_, stream_));
      },
      "");
  // Up to 16 bytes the end is seen when the block is released.
  EXPECT_DEATH(
      {
        launch(3, memory_.data());
        expect(finish(device_, stream_));
        device_.release(bytes(memory_.data()));
      },
      "memory behind a block was written");
  EXPECT_DEATH(
      {
        launch(1, memory_.data() - 1);
        expect(finish(device_, stream_));
      },
      "names memory that is not of the card");
  EXPECT_DEATH(host_.data()[4] = 1, "");
  kernels::device::CopyBlock backwards;
  backwards.rows = 2;
  backwards.width = 1;
  backwards.from = {memory_.data(), 0};
  backwards.to = {memory_.data(), ~std::size_t{0}};
  EXPECT_DEATH(
      {
        device_.launch(stream_.handle(), backwards);
        expect(finish(device_, stream_));
        device_.release(bytes(memory_.data()));
      },
      "memory before a block was written|overflow");
}

TEST(FakeKernels, AllPointersAreSeen) {
  const auto pointers = [](const kernels::device::Kernel& kernel) {
    std::size_t count = 0;
    test::visit_pointers(kernel, [&](const void*) { ++count; });
    return count;
  };
  auto* const some = reinterpret_cast<float*>(std::uintptr_t{0x7fff12345600});
  kernels::device::SumOf sum;
  kernels::device::ProductOf product;
  for (auto* from : {sum.from, product.from}) {
    for (std::size_t i = 0; i < kernels::device::kCombinedMax; ++i) from[i] = {some, 9};
  }
  sum.to = product.to = {some, 9};
  EXPECT_EQ(pointers(sum), 17U);
  EXPECT_EQ(pointers(product), 17U);
  kernels::device::SampledCostBackward cost;
  cost.indices = reinterpret_cast<const std::uint32_t*>(some);
  cost.weight = some;
  cost.slopes = {some, 1};
  cost.x_gradient = {some, 1};
  EXPECT_EQ(pointers(cost), 4U);
  EXPECT_EQ(pointers(Fill{std::size_t{1} << 31U, 1, nullptr}), 0U);
}

// Each row is copied from the one before, so the last one has the first one's value only where
// rows are in order.
TEST_F(FakeRules, RowsOfAKernelThatDependOnEachOtherShow) {
  constexpr std::size_t kRows = 20;
  const auto chain = memory_of<float, Place::kCard>(device_, kRows + 1);
  int in_order = 0;
  for (int i = 0; i < 20; ++i) {
    launch(kRows + 1, chain.data());
    device_.launch(stream_.handle(), Fill{1, 5, chain.data()});
    device_.launch(
        stream_.handle(),
        kernels::device::CopyBlock{kRows, 1, {chain.data(), 1}, {chain.data() + 1, 1}, false});
    if (read(device_, stream_, chain).back() == 5) ++in_order;
  }
  EXPECT_LT(in_order, 10);
}

TEST_F(FakeRulesDeathTest, Trap36OnlyPinnedMemoryIsCopied) {
  std::byte pageable[8] = {};
  std::byte* const card = bytes(memory_.data());
  std::byte* const host = bytes(host_.data());
  const auto upload = [&](const std::byte* from, std::byte* to, std::size_t count) {
    device_.upload(stream_.handle(), from, to, count);
  };
  const auto download = [&](const std::byte* from, std::byte* to, std::size_t count) {
    device_.download(stream_.handle(), from, to, count);
  };
  EXPECT_DEATH(upload(pageable, card, 8), "an upload names memory that is not of the host that is");
  EXPECT_DEATH(download(card, pageable, 8), "a download names memory that is not of the host");
  EXPECT_DEATH(upload(card, card, 8), "an upload names memory that is not of the host");
  EXPECT_DEATH(upload(host, host, 8), "an upload names memory that is not of the card");
  EXPECT_DEATH(upload(host + 4, card, 8), "an upload goes past its memory's end");
  EXPECT_DEATH(upload(host, card + 4, 8), "an upload goes past its memory's end");
  EXPECT_DEATH(download(card + 4, host, 8), "a download goes past its memory's end");
  EXPECT_DEATH(download(card, host + 4, 8), "a download goes past its memory's end");
  upload(host + 4, card + 4, 4);
  upload(host + 8, card + 8, 0);
  expect(finish(device_, stream_));
}

TEST_F(FakeRulesDeathTest, KernelsNameMemoryOfTheCardAlone) {
  float value = 0;
  EXPECT_DEATH(launch(1, &value), "a kernel names memory that is not of the card");
  EXPECT_DEATH(launch(1, host_.data()), "a kernel names memory that is not of the card");
  FakeDevice other;
  EXPECT_DEATH(other.launch(stream_.handle(), Fill{}), "there is no such stream");
  float* const stale = memory_.data();
  expect(memory_.reserve(3));
  EXPECT_DEATH(launch(1, stale), "a kernel names memory of the card that was released");
  launch(0, memory_.data() + 3);  // its end is in it
}

TEST_F(FakeRulesDeathTest, ProductsStayInTheirMemory) {
  Product product{.m = 1, .n = 1, .k = 1};
  product.a = product.b = memory_.data();
  product.c = memory_.data() + 1;
  product.a_stride = product.b_stride = product.c_stride = 1;
  device_.multiply(stream_.handle(), product);
  const auto multiply = [&](auto change) {
    Product changed = product;
    change(changed);
    device_.multiply(stream_.handle(), changed);
  };
  EXPECT_DEATH(multiply([](Product& p) { p.k = 3, p.a_stride = 3; }), "past its memory's end");
  EXPECT_DEATH(multiply([](Product& p) { p.m = 2; }), "past its memory's end");
  EXPECT_DEATH(multiply([](Product& p) { p.k = 2; }), "rows of a product's operand overlap");
  EXPECT_DEATH(multiply([&](Product& p) { p.bias = host_.data(); }), "not of the card");
  EXPECT_DEATH(multiply([&](Product& p) { p.c = memory_.data(); }), "overwrites its factor");
  multiply([](Product& p) {
    p.m = 0;
    p.a = nullptr;
  });
}

TEST_F(FakeRulesDeathTest, MemoryIsReleasedOnceAndWhenNoOrderNamesIt) {
  float* const first = memory_.data();
  EXPECT_DEATH(device_.release(bytes(first + 1)), "memory is released that the card has not given");
  EXPECT_DEATH(device_.release_pinned(bytes(first)), "that the host that is pinned has not given");
  launch(1, first);
  EXPECT_DEATH(device_.release(bytes(first)), "that an order yet to run names");
  upload(device_, stream_, host_, first);
  EXPECT_DEATH(device_.release_pinned(bytes(host_.data())), "that an order yet to run names");
  expect(finish(device_, stream_));
  expect(memory_.reserve(3));
  EXPECT_NE(memory_.data(), first) << "an address is given once";
  EXPECT_DEATH(device_.release(bytes(first)), "memory of the card is released twice");
  EXPECT_DEATH(static_cast<void>(device_.allocate(0)), "0 bytes of the card are allocated");
}

TEST_F(FakeRulesDeathTest, NothingOutlivesTheDevice) {
  EXPECT_DEATH(static_cast<void>(FakeDevice().allocate(4)), "1 blocks of memory outlive");
  EXPECT_DEATH(static_cast<void>(FakeDevice().allocate_pinned(4)), "1 blocks of pinned memory");
  EXPECT_DEATH(static_cast<void>(FakeDevice().open_stream(Device::Urgency::kHigh)), "1 streams");
  EXPECT_DEATH(static_cast<void>(FakeDevice().make_event()), "1 events outlive the device");
}

TEST_F(FakeRulesDeathTest, HandlesAreGivenBackOnce) {
  const EventHandle event = expect(device_.make_event());
  device_.destroy_event(event);
  EXPECT_DEATH(device_.destroy_event(event), "there is no such event, or it was destroyed");
  EXPECT_DEATH(static_cast<void>(device_.is_done(event)), "there is no such event");
  EXPECT_DEATH(device_.record(stream_.handle(), {}), "there is no such event");
  const StreamHandle stream = expect(device_.open_stream(Device::Urgency::kNormal));
  device_.close_stream(stream);
  EXPECT_DEATH(device_.close_stream(stream), "there is no such stream, or it was closed");
  EXPECT_DEATH(device_.launch(stream, Fill{}), "there is no such stream");
  device_.begin_capture(stream_.handle());
  const GraphHandle graph = expect(device_.end_capture(stream_.handle()));
  device_.destroy_graph(graph);
  EXPECT_DEATH(device_.destroy_graph(graph), "there is no such graph, or it was destroyed");
  EXPECT_DEATH(device_.replay(stream_.handle(), graph), "there is no such graph");
}

TEST_F(FakeRulesDeathTest, Trap34WhileAStreamIsCapturedNothingIsAsked) {
  const Stream other = expect(Stream::open(device_));
  device_.record(stream_.handle(), event_.handle());
  device_.begin_capture(stream_.handle());
  const auto on_a_thread = [](auto f) { std::thread(f).join(); };
  const EventHandle event = event_.handle();
  EXPECT_DEATH(on_a_thread([&] { static_cast<void>(device_.is_done(event)); }),
               "an event is asked for while a stream is captured");
  EXPECT_DEATH(on_a_thread([&] { static_cast<void>(device_.wait(event, in_seconds(1))); }),
               "an event is waited for while a stream is captured");
  EXPECT_DEATH(static_cast<void>(device_.allocate(4)), "memory is allocated while a stream is");
  EXPECT_DEATH(static_cast<void>(device_.allocate_pinned(4)), "pinned memory is allocated while");
  EXPECT_DEATH(device_.release(bytes(memory_.data())), "memory is released while a stream is");
  EXPECT_DEATH(device_.release_pinned(bytes(host_.data())), "pinned memory is released while");
  EXPECT_DEATH(device_.close_stream(other.handle()), "a stream is closed while a stream is");
  EXPECT_DEATH(device_.record(stream_.handle(), event), "an event is recorded in a graph");
  EXPECT_DEATH(device_.wait_for(stream_.handle(), event), "a stream that is captured waits for");
  EXPECT_DEATH(device_.begin_capture(other.handle()), "a second capture begins");
  EXPECT_DEATH(static_cast<void>(device_.end_capture(other.handle())), "that has not begun");
  const Graph graph(device_, expect(device_.end_capture(stream_.handle())));
  device_.begin_capture(stream_.handle());
  EXPECT_DEATH(device_.replay(stream_.handle(), graph.handle()), "a graph is replayed in a graph");
  device_.replay(other.handle(), graph.handle());
  const Graph second(device_, expect(device_.end_capture(stream_.handle())));
  expect(device_.wait(event, in_seconds(60)));
}

TEST_F(FakeRulesDeathTest, Trap35AProductRunsBeforeItIsCaptured) {
  const auto result = memory_of<float, Place::kCard>(device_, 1);
  Product product{.m = 1, .n = 1, .k = 1};
  product.a = product.b = memory_.data();
  product.c = result.data();
  product.a_stride = product.b_stride = product.c_stride = 1;
  EXPECT_DEATH(
      {
        device_.begin_capture(stream_.handle());
        device_.multiply(stream_.handle(), product);
      },
      "a product is captured that has not run");
  device_.multiply(stream_.handle(), product);
  device_.begin_capture(stream_.handle());
  device_.multiply(stream_.handle(), product);
  const Graph graph(device_, expect(device_.end_capture(stream_.handle())));
  expect(finish(device_, stream_));
}

TEST_F(FakeRulesDeathTest, Trap35AGraphDoesNotOutliveItsMemory) {
  device_.begin_capture(stream_.handle());
  launch(1, memory_.data());
  upload(device_, stream_, host_, memory_.data());
  const Graph graph(device_, expect(device_.end_capture(stream_.handle())));
  device_.replay(stream_.handle(), graph.handle());
  EXPECT_DEATH(device_.destroy_graph(graph.handle()),
               "a graph is destroyed before it was replayed");
  EXPECT_DEATH(device_.release(bytes(memory_.data())), "that an order yet to run names");
  expect(finish(device_, stream_));
  EXPECT_DEATH(
      {
        expect(host_.reserve(3));
        device_.replay(stream_.handle(), graph.handle());
      },
      "a graph is replayed that names memory that was released");
  expect(memory_.reserve(3));  // a buffer grew, and the graph was forgotten
  EXPECT_DEATH(device_.replay(stream_.handle(), graph.handle()),
               "a graph is replayed that names memory that was released");
}

}  // namespace
}  // namespace paddle::device
