#include "cli/console/result_groups.h"

#include <gtest/gtest.h>

namespace paddle::cli {
namespace {

TEST(ResultGroups, EqualTextsShareAGroupInTheOrderTheyAreMet) {
  const auto groups = group_results({{"b", "x"}, {"a", "y"}, {"c", "x"}});
  ASSERT_EQ(groups.size(), 2U);
  EXPECT_EQ(groups[0].nodes, (std::vector<std::string>{"b", "c"}));
  EXPECT_EQ(groups[0].text, "x");
  EXPECT_EQ(groups[1].nodes, (std::vector<std::string>{"a"}));
}

TEST(ResultGroups, NamesFoldAroundTheirNumber) {
  EXPECT_EQ(fold_names({"node01.lab", "node02.lab", "node03.lab", "node10.lab", "other"}),
            "node[01-03,10].lab, other");
  EXPECT_EQ(fold_names({"n-0", "n-2", "n-1"}), "n-[0-2]");
  EXPECT_EQ(fold_names({"n7"}), "n7");
  EXPECT_EQ(fold_names({"a1.x", "a1.y"}), "a1.x, a1.y");
  EXPECT_EQ(fold_names({"n9", "n10"}), "n[9-10]");
  EXPECT_EQ(fold_names({"n1", "n01"}), "n1, n01");
  EXPECT_EQ(fold_names({"h.lab2", "h.lab3"}), "h.lab2, h.lab3");
  EXPECT_EQ(fold_names({"n99999999999999999999"}), "n99999999999999999999");
}

}  // namespace
}  // namespace paddle::cli
