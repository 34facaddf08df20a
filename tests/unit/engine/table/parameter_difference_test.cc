#include <gtest/gtest.h>

#include "engine/table/parameter_set.h"
#include "tests/unit/engine/pserver/parameters.h"

namespace paddle::parameter {
namespace {

// The difference found when one side has this change.
template <class Change>
std::string difference(Change change) {
  const auto here = test::small_set("rmsprop", 1);
  auto there = here;
  EXPECT_EQ(parameter_difference(here, there), "");
  change(there);
  return parameter_difference(here, there);
}

TEST(ParameterDifference, NamesTheOptimizersOptionAndBothValues) {
  const auto of = [](auto change) {
    return difference([&](wire::ParameterSet& set) { change(*set.mutable_optimizer()); });
  };
  using wire::Optimizer;
  EXPECT_EQ(of([](Optimizer& o) { o.set_rho(0.5F); }), "optimizer rho is 0 here, 0.5 there");
  EXPECT_EQ(of([](Optimizer& o) { o.set_beta(2); }), "optimizer beta is 0 here, 2 there");
  EXPECT_EQ(of([](Optimizer& o) { o.set_centered(true); }),
            "optimizer centered is false here, true there");
  EXPECT_EQ(of([](Optimizer& o) { o.set_l1(1); }), "optimizer l1 is 0 here, 1 there");
  EXPECT_EQ(of([](Optimizer& o) { o.set_l2(1); }), "optimizer l2 is 0 here, 1 there");
  EXPECT_EQ(of([](Optimizer& o) { o.set_clip_value(1); }),
            "optimizer clip_value is 0 here, 1 there");
  EXPECT_EQ(of([](Optimizer& o) { o.set_clip_norm(1); }), "optimizer clip_norm is 0 here, 1 there");
  EXPECT_EQ(of([](Optimizer& o) { o.set_clip_global_norm(1); }),
            "optimizer clip_global_norm is 0 here, 1 there");
  EXPECT_EQ(of([](Optimizer& o) { o.mutable_average()->set_window(0.5F); }),
            "average_window is 0 here, 0.5 there");
  EXPECT_EQ(of([](Optimizer& o) { o.mutable_average()->set_window_max(9); }),
            "max_average_window is 0 here, 9 there");
  EXPECT_EQ(
      of([](Optimizer& o) {
        o.mutable_schedule()->set_name("manual");
        o.mutable_schedule()->add_steps()->set_until(5);
      }),
      "learning_rate_schedule is  a 0 b 0 warm-up 0 here, manual a 0 b 0 warm-up 0 5:0 there");
}

TEST(ParameterDifference, TellsADefaultFromAGivenWeightDecay) {
  EXPECT_EQ(
      difference([](wire::ParameterSet& set) { set.mutable_optimizer()->set_weight_decay(0); }),
      "optimizer weight_decay is the default here, 0 there");
}

TEST(ParameterDifference, NamesAStrategyThatThisVersionDoesNotKnow) {
  const std::string found = difference(
      [](wire::ParameterSet& set) { set.set_dense_strategy(static_cast<wire::Strategy>(99)); });
  EXPECT_NE(found.find("number 99 there"), std::string::npos) << found;
}

TEST(ParameterDifference, NamesTheParameter) {
  const auto of = [](auto change) {
    return difference([&](wire::ParameterSet& set) { change(*set.mutable_parameters(1)); });
  };
  using wire::ParameterSpec;
  EXPECT_EQ(of([](ParameterSpec& s) { s.set_l1(1); }), "parameter 'fc.b' l1 is 0 here, 1 there");
  EXPECT_EQ(of([](ParameterSpec& s) { s.set_clip_value(1); }),
            "parameter 'fc.b' clip_value is 0 here, 1 there");
  EXPECT_EQ(of([](ParameterSpec& s) { s.set_clip_norm(1); }),
            "parameter 'fc.b' clip_norm is 0 here, 1 there");
  // A given 0 is not the optimizer's value.
  EXPECT_EQ(of([](ParameterSpec& s) { s.set_l2(0); }),
            "one gives a value explicitly that the other leaves out");
}

TEST(ParameterDifference, NamesListsOfOtherObjects) {
  EXPECT_EQ(difference([](wire::ParameterSet& set) { set.set_data_names(7); }),
            "the list of data.command is 0 here, 7 there");
}

}  // namespace
}  // namespace paddle::parameter
