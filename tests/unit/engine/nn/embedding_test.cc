// The embedding layer in a workspace that other batches have used.
#include <gtest/gtest.h>

#include "tests/unit/engine/nn/test_network.h"

namespace paddle::nn {
namespace {

TEST(Embedding, AShortBagIsPaddedByZerosAfterALongOne) {
  auto bag = embedding("bag", {"words"}, 3, true);
  bag.pooling = "concat";
  bag.length = 3;
  const std::vector<config::LayerConfig> layers{bag, fc("out", {"bag"}, 3, "identity"),
                                                cost("cost", "out", "label")};
  TestNetwork used(layers, {"words", "label"});
  TestNetwork fresh(layers, {"words", "label"});
  used.run({2, {{{1, 2, 3, 4, 5, 6}, {0, 3, 6}}, {{0, 1}}}});
  const Batch batch{2, {{{1, 4}, {0, 1, 2}}, {{0, 1}}}};
  EXPECT_EQ(used.run(batch), fresh.run(batch));
  EXPECT_EQ(used.gradients, fresh.gradients);
}

TEST(Embedding, ABagLongerThanItsLengthIsCut) {
  auto bag = embedding("bag", {"words"}, 3, true);
  bag.pooling = "concat";
  bag.length = 2;
  TestNetwork test({bag, fc("out", {"bag"}, 3, "identity"), cost("cost", "out", "label")},
                   {"words", "label"});
  const double cut = test.run({2, {{{1, 4, 6, 2, 3}, {0, 3, 5}}, {{0, 1}}}});
  EXPECT_EQ(cut, test.run({2, {{{1, 4, 2, 3}, {0, 2, 4}}, {{0, 1}}}}));
}

}  // namespace
}  // namespace paddle::nn
