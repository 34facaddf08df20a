// Gradients that others read while the rest of a backward is computed.
#include "engine/gpu/gradient_ends.h"

#include <algorithm>
#include <list>
#include <memory>

#include <gtest/gtest.h>

#include "engine/gpu/device_executor.h"
#include "tests/support/device/fake_device.h"
#include "tests/unit/engine/nn/random_network.h"

namespace paddle::nn {
namespace {

constexpr float kUnwritten = 7;

// Runs of a network whose dense parameters a card keeps. A stream beside the computing one copies
// each gradient as soon as its event has come.
class WatchedRun {
 public:
  // `each`: so many parameters have one event.
  WatchedRun(TestNetwork& test, std::uint64_t seed, std::size_t each)
      : test_(test),
        plan_(test.network.lower()),
        device_({.seed = seed}),
        beside_(*device::Stream::open(device_)),
        moves_(*device::Stream::open(device_)),
        done_(*device::Event::make(device_)),
        executor_(*DeviceExecutor::make(plan_, device_, {})) {
    for (std::size_t p = 0; p < test.values.size(); ++p) {
      if (p % each == 0) events_.push_back(*device::Event::make(device_));
      Kept& kept = kept_.emplace_back(device_);
      if (test.network.parameters()[p].sparse()) continue;
      kept.size = test.values[p].size();
      kept.event = &events_.back();
      EXPECT_TRUE(kept.memory.reserve(3 * kept.size));
      EXPECT_TRUE(kept.room.reserve(kept.size));
      std::ranges::copy(test.values[p], kept.room.data());
      up(kept, kept.memory.data());
      std::fill_n(kept.room.data(), kept.size, kUnwritten);
      up(kept, kept.gradient());
    }
  }

  Status begin(const Batch& batch, std::uint64_t seed) {
    parameters_ = test_.views(batch, seed);
    parameters_.card.resize(kept_.size());
    for (std::size_t p = 0; p < kept_.size(); ++p) {
      const Kept& kept = kept_[p];
      if (kept.event == nullptr) continue;
      parameters_.dense[p] = {};
      parameters_.card[p] = {kept.memory.data(), kept.gradient(), kept.event->handle().value};
    }
    PADDLE_TRY_STATUS(executor_->begin(
        {.batch = batch, .begin = 0, .end = batch.size, .parameters = parameters_, .seed = seed}));
    for (const Kept& kept : kept_) {
      if (kept.event == nullptr) continue;
      device_.wait_for(beside_.handle(), kept.event->handle());
      device_.launch(beside_.handle(),
                     kernels::device::CopyBlock{.rows = 1,
                                                .width = kept.size,
                                                .from = {kept.gradient(), 0},
                                                .to = {kept.gradient() + kept.size, 0}});
    }
    return {};
  }
  Status finish() {
    std::vector<std::vector<float>> sparse(kept_.size());
    std::vector<std::span<float>> gradients(kept_.size());
    for (std::size_t p = 0; p < kept_.size(); ++p) {
      if (kept_[p].event != nullptr) continue;
      sparse[p].resize(parameters_.sparse[p].values.size());
      gradients[p] = sparse[p];
    }
    PADDLE_TRY_STATUS(executor_->finish(gradients));
    return wait(beside_);
  }
  // The copy is of the whole gradient.
  void expect_copied() {
    for (std::size_t p = 0; p < kept_.size(); ++p) {
      if (kept_[p].event == nullptr) continue;
      EXPECT_EQ(copy_of(p), gradient_of(p)) << test_.network.parameters()[p].name();
    }
  }
  bool is_written(std::size_t parameter) {
    return *device_.is_done(kept_[parameter].event->handle());
  }
  std::vector<float> gradient_of(std::size_t p) { return down(kept_[p], kept_[p].gradient()); }
  test::FakeDevice& device() { return device_; }

 private:
  struct Kept {
    explicit Kept(device::Device& device) : memory(device), room(device) {}
    float* gradient() const { return memory.data() + size; }

    std::size_t size = 0;
    device::Event* event = nullptr;    // null: a sparse table
    device::CardMemory<float> memory;  // the value, its gradient, and a copy of that
    device::PinnedMemory<float> room;
  };

  Status wait(const device::Stream& stream) {
    device_.record(stream.handle(), done_.handle());
    return device_.wait(done_.handle(), SteadyClock().now() + std::chrono::seconds(10));
  }
  void up(const Kept& kept, float* to) {
    device_.upload(moves_.handle(), reinterpret_cast<const std::byte*>(kept.room.data()),
                   reinterpret_cast<std::byte*>(to), kept.size * sizeof(float));
    ASSERT_TRUE(wait(moves_));
  }
  std::vector<float> down(const Kept& kept, const float* from) {
    device_.download(moves_.handle(), reinterpret_cast<const std::byte*>(from),
                     reinterpret_cast<std::byte*>(kept.room.data()), kept.size * sizeof(float));
    EXPECT_TRUE(wait(moves_));
    return {kept.room.data(), kept.room.data() + kept.size};
  }
  std::vector<float> copy_of(std::size_t p) {
    return down(kept_[p], kept_[p].gradient() + kept_[p].size);
  }

  TestNetwork& test_;
  Plan plan_;
  test::FakeDevice device_;
  device::Stream beside_;
  device::Stream moves_;
  device::Event done_;
  std::list<device::Event> events_;
  std::vector<Kept> kept_;
  std::unique_ptr<DeviceExecutor> executor_;
  Parameters parameters_;
};

TEST(GradientEnds, Trap35AGradientIsWholeWhenItsEventComesHoweverSoonItIsRead) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    TestNetwork test(random_layers(seed), kRandomSlots, seed);
    WatchedRun run(test, seed % 2 == 0 ? test::kNewestFirst : seed, 1 + seed % 3);
    for (std::uint64_t i = 0; i < 4; ++i) {
      const Status begun = run.begin(random_batch(10 * seed + i), i);
      ASSERT_TRUE(begun) << begun.error().message;
      ASSERT_TRUE(run.finish());
      run.expect_copied();
    }
    if (testing::Test::HasFailure()) break;
  }
}

TestNetwork chain() {
  return TestNetwork({fc("first", {"x"}, 5, "tanh"), fc("second", {"first"}, 4, "tanh"),
                      fc("third", {"second"}, 3, "identity"), cost("cost", "third", "class")},
                     kRandomSlots);
}

TEST(GradientEnds, TheLastLayersGradientsComeBeforeTheOthersAreComputed) {
  TestNetwork test = chain();
  WatchedRun run(test, test::kLate, 1);
  const std::size_t last = test.values.size() - 1;
  ASSERT_TRUE(run.begin(random_batch(1), 1));
  while (!run.is_written(last)) {
  }
  EXPECT_EQ(run.gradient_of(0), std::vector<float>(test.values[0].size(), kUnwritten));
  ASSERT_TRUE(run.finish());
  EXPECT_NE(run.gradient_of(0), std::vector<float>(test.values[0].size(), kUnwritten));
}

// A graph between two events, for each shape of a batch; its second run captures them.
TEST(GradientEnds, GraphsAreCutWhereOthersWait) {
  TestNetwork test = chain();
  WatchedRun run(test, test::kLate, 2);  // weights and bias of a layer
  const Batch batch = random_batch(1);
  for (std::size_t i = 0; i < 2 * Uploads::kArenas; ++i) {
    ASSERT_TRUE(run.begin(batch, 1));
    ASSERT_TRUE(run.finish());
  }
  const auto before = run.device().counts();
  ASSERT_TRUE(run.begin(batch, 1));
  ASSERT_TRUE(run.finish());
  const auto after = run.device().counts();
  EXPECT_EQ(after.kernels, before.kernels + test.values.size()) << "copies alone";
  EXPECT_EQ(after.replays, before.replays + 3);
}

}  // namespace
}  // namespace paddle::nn
