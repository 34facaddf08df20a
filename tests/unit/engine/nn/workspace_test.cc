#include "engine/nn/workspace.h"

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

#include "tests/unit/engine/nn/test_network.h"

namespace paddle::nn {
namespace {

TEST(Workspace, AGradientIsWrittenToItsBufferAndBackToItsOwnMemory) {
  TestNetwork test({fc("out", {"x"}, 2, "identity"), cost("cost", "out", "y")}, {"x:2", "y"});
  const Batch batch{2, {{{}, {}, {}, {1, 2, -1, 0.5F}}, {{0, 1}}}};
  test.run(batch, 2);
  const std::vector<float> own = test.gradients[0];
  std::vector<float> buffer(own.size(), 99.0F);
  test.workspace.set_gradient_buffer(0, buffer);
  test.run(batch, 2);
  EXPECT_EQ(buffer, own);
  EXPECT_EQ(test.workspace.gradient(0).data(), buffer.data());
  std::fill(buffer.begin(), buffer.end(), 99.0F);
  test.workspace.set_gradient_buffer(0, {});
  test.run(batch, 2);
  EXPECT_EQ(test.gradients[0], own);
  EXPECT_EQ(buffer, std::vector<float>(own.size(), 99.0F));
}

}  // namespace
}  // namespace paddle::nn
