#include "engine/strategy/communicator.h"

#include <gtest/gtest.h>

namespace paddle::strategy {
namespace {

void add(Communicator& core, std::uint64_t samples, LargeArray<float> gradient,
         std::vector<std::uint64_t> ids, std::vector<float> row_gradients) {
  const client::DenseParameter dense{0, {}, std::move(gradient)};
  const client::SparseRows rows{1, std::move(ids), {}, std::move(row_gradients)};
  core.on_gradient({1, samples, static_cast<double>(samples)}, {&dense, 1}, {&rows, 1});
}

TEST(Communicator, MeanIsOverTheSamplesOfAllBatches) {
  Communicator core({.max_merge = 3, .send_queue_size = 1, .merge = wire::MERGE_MEAN});
  add(core, 1, {4, 0}, {2, 7}, {4, 4, 8, 8});
  add(core, 1, {0, 4}, {}, {});
  EXPECT_EQ(core.send(), nullptr);
  add(core, 2, {2, 2}, {5, 7}, {1, 1, 2, 2});
  const Window* const window = core.send();
  ASSERT_NE(window, nullptr);
  EXPECT_EQ(window->batches, 3U);
  EXPECT_EQ(window->samples, 4U);
  EXPECT_EQ(window->cost, 4.0);
  EXPECT_EQ(window->dense[0].gradient, (LargeArray<float>{2, 2}));
  EXPECT_EQ(window->rows[0].ids, (std::vector<std::uint64_t>{2, 5, 7}));
  EXPECT_EQ(window->rows[0].gradients, (std::vector<float>{1, 1, 0.5F, 0.5F, 3, 3}));
}

// Trap 2: sum and mean differ in the learning rate they need.
TEST(Communicator, Trap02SumAddsBatches) {
  Communicator core({.max_merge = 2, .send_queue_size = 1, .merge = wire::MERGE_SUM});
  add(core, 1, {4, 0}, {2}, {4, 4});
  add(core, 3, {1, 1}, {2}, {1, 2});
  const Window* const window = core.send();
  ASSERT_NE(window, nullptr);
  EXPECT_EQ(window->dense[0].gradient, (LargeArray<float>{5, 1}));
  EXPECT_EQ(window->rows[0].gradients, (std::vector<float>{5, 6}));
}

TEST(Communicator, OneBatchIsPushedAsItIs) {
  Communicator core({.max_merge = 1, .send_queue_size = 1, .merge = wire::MERGE_MEAN});
  add(core, 7, {0.1F, 3.3333333F}, {2}, {1e-30F, 5});
  const Window* const window = core.send();
  ASSERT_NE(window, nullptr);
  EXPECT_EQ(window->dense[0].gradient, (LargeArray<float>{0.1F, 3.3333333F}));
  EXPECT_EQ(window->rows[0].gradients, (std::vector<float>{1e-30F, 5}));
}

TEST(Communicator, WindowsGoOutOneByOneInOrderAndAFullQueueSaysSo) {
  Communicator core({.max_merge = 1, .send_queue_size = 2, .merge = wire::MERGE_MEAN});
  for (int i = 0; i < 3; ++i) add(core, 1, {1}, {}, {});
  EXPECT_TRUE(core.is_full());
  EXPECT_EQ(core.must_be_answered(), 1U);
  const Window* const first = core.send();
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(first->number, 1U);
  EXPECT_EQ(core.send(), nullptr);
  EXPECT_TRUE(core.is_full());
  core.on_answer();
  EXPECT_FALSE(core.is_full());
  EXPECT_EQ(core.send()->number, 2U);
  core.on_answer();
  EXPECT_EQ(core.send()->number, 3U);
  core.on_answer();
  EXPECT_EQ(core.answered(), 3U);
  EXPECT_EQ(core.send(), nullptr);
}

// Trap 14: neither a batch without rows nor a window that never fills holds up a push.
TEST(Communicator, Trap14FlushEndsAWindowThatIsNotFull) {
  Communicator core({.max_merge = 5, .send_queue_size = 1, .merge = wire::MERGE_MEAN});
  core.flush();
  EXPECT_EQ(core.closed(), 0U);
  add(core, 1, {1}, {}, {});
  add(core, 1, {1}, {}, {});
  core.flush();
  ASSERT_NE(core.send(), nullptr);
  core.on_answer();
  EXPECT_EQ(core.closed(), core.answered());
}

}  // namespace
}  // namespace paddle::strategy
