#include <cmath>

#include <gtest/gtest.h>

#include "base/rng.h"
#include "engine/nn/run.h"
#include "tests/unit/engine/nn/test_network.h"

namespace paddle::nn {
namespace {

TestNetwork with_dropout(float rate) {
  return TestNetwork({embedding("e", {"a"}, 16, false), dropout("d", "e", rate),
                      fc("out", {"d"}, 3, "identity"), cost("cost", "out", "label")},
                     {"a", "label"});
}

Batch batch_of(std::size_t size) {
  Batch batch{size, {{}, {}}};
  for (std::size_t i = 0; i < size; ++i) {
    batch.slots[0].ids.push_back(i % kTestVocabulary);
    batch.slots[1].ids.push_back(i % 3);
  }
  return batch;
}

TEST(Dropout, TheMaskDependsOnTheSeedAndTheExampleNotOnTheSplit) {
  TestNetwork test = with_dropout(0.5F);
  const Batch batch = batch_of(12);
  const double whole = test.run(batch, 1, 9);
  EXPECT_NEAR(test.run(batch, 4, 9), whole, 1e-9);
  EXPECT_NE(test.run(batch, 1, 10), whole);
  EXPECT_NE(example_stream(1, "d", 0), example_stream(1, "d", 1));
  EXPECT_NE(example_stream(1, "d", 0), example_stream(1, "other", 0));
}

TEST(Dropout, ATestPassDropsNothing) {
  TestNetwork half = with_dropout(0.5F);
  TestNetwork none = with_dropout(0.0F);
  const Batch batch = batch_of(12);
  EXPECT_EQ(half.test(batch).value(), none.test(batch).value());
  EXPECT_EQ(none.run(batch), none.test(batch).value());
}

}  // namespace
}  // namespace paddle::nn
