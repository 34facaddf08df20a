// The plans of the networks of all templates.
#include <gtest/gtest.h>

#include "tests/unit/engine/nn/equal_plan.h"
#include "tests/unit/engine/nn/template_networks.h"

namespace paddle::nn {
namespace {

TEST(Templates, ArePlannedAsTheirLayersCompute) {
  for (const TemplateNetwork& one : template_networks()) {
    SCOPED_TRACE(one.path);
    TestNetwork test(one.job.layers, one.slots);
    expect_equal_plan(test, one.batch, 1);
  }
}

}  // namespace
}  // namespace paddle::nn
