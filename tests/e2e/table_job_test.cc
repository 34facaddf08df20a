// init --from: the job that it writes for a table trains as it stands.
#include <cstdlib>
#include <regex>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/e2e/cli_local_test_cluster.h"

namespace paddle::test {
namespace {

class TableJob : public testing::Test {
 protected:
  void SetUp() override {
    if (std::system("/usr/bin/python3 -c 'import sklearn' 2>/dev/null") != 0)
      GTEST_SKIP() << "there is no python3-sklearn";
    ASSERT_EQ(cluster_.run({"up", "cluster.toml"}).code, 0);
  }

  // The figure of the last test, after a training of the workspace for this table of
  // tests/support/tables.
  double trained(const std::string& table, const std::string& figure) {
    const std::string write =
        fmt::format("/usr/bin/python3 {} {} {}", TABLES_SCRIPT, cluster_.folder().path(), table);
    EXPECT_EQ(std::system(write.c_str()), 0);
    const Outcome made = cluster_.run({"init", "--from", table, "work"});
    EXPECT_EQ(made.code, 0) << made.output;
    const Outcome done = cluster_.run({"train", "--name", "first", "work"});
    EXPECT_EQ(done.code, 0) << done.output;
    const std::regex pattern("held-out cost .*" + figure + " ([0-9.e-]+)");
    double value = -1;
    for (std::sregex_iterator at(done.output.begin(), done.output.end(), pattern), end; at != end;
         ++at)
      value = std::stod((*at)[1]);
    EXPECT_GE(value, 0) << done.output;
    EXPECT_EQ(cluster_.run({"teardown", "--yes"}).code, 0);
    return value;
  }

  LocalCluster cluster_{2};
};

// The mean of the labels alone has an RMSE of 77. scikit-learn's Ridge reaches 62 on this split.
TEST_F(TableJob, EstimatesTheProgressOfDiabetes) {
  EXPECT_LT(trained("diabetes.csv", "rmse"), 64);
}

// Numbers, categories and missing values. scikit-learn's LogisticRegression reaches 0.833.
TEST_F(TableJob, PredictsIncomes) {
  EXPECT_GT(trained("people.csv", "auc"), 0.82);
}

}  // namespace
}  // namespace paddle::test
