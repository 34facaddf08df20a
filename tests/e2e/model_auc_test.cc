// The AUC that `paddle test` prints, and scikit-learn's of the scores of `paddle predict`.
#include <filesystem>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/e2e/model_life_fixture.h"

namespace paddle::test {
namespace {

namespace fs = std::filesystem;

constexpr const char* kNeedsSklearn = "/usr/bin/python3 -c 'import sklearn.metrics'";

// As sklearn computes it from the scores of `predict`.
std::string sklearn_auc(const std::string& snapshot, const std::string& data) {
  return fmt::format(
      "paddle predict --snapshot={} --data={} >scores.csv;"
      "/usr/bin/python3 -c 'import numpy, sklearn.metrics; s = numpy.loadtxt(\"scores.csv\", "
      "delimiter=\",\"); print(len(s), sklearn.metrics.roc_auc_score(s[:, 0], s[:, 1]))'",
      snapshot, data);
}

TEST_F(ModelLife, SklearnFindsTheSameAuc) {
  if (shell(kNeedsSklearn).code != 0) GTEST_SKIP() << "no python3-sklearn";
  const auto tests = train("ctr_dnn", kClicks, "--num_passes=1 --set=train.batch_size=64");
  const Ran auc = succeed(sklearn_auc("ctr_dnn-save/pass-00000", "ctr_dnn/data/test.txt"));
  ASSERT_TRUE(auc.out.starts_with("2000 ")) << auc.out;
  EXPECT_NEAR(std::stod(auc.out.substr(5)), field(tests.back(), "auc"), 1e-4);
}

constexpr const char* kHeart = "/usr/share/doc/liblinear-tools/examples/heart_scale";
constexpr const char* kHeartJob = R"toml(name = "heart"
[data]
train = "train.txt"
format = "libsvm"
[[layer]]
name = "weights"
type = "embedding"
input = ["features"]
size = 1
pooling = "sum"
weight = { initial_std = 0.0, sparse = true }
[[layer]]
name = "ill"
type = "fc"
input = ["weights"]
size = 1
weight = { initial_mean = 1.0, initial_std = 0.0, static = true }
[[layer]]
name = "cost"
type = "binary_cross_entropy"
input = ["ill"]
label = "label"
[optimizer]
method = "adam"
learning_rate = 0.02
[train]
passes = 20
batch_size = 9
)toml";

// Statlog's 270 patients in libsvm's own format; a logistic regression of the odd ones meets the
// even ones for the first time.
TEST_F(ModelLife, SklearnFindsTheSameAucOfPatients) {
  if (shell(kNeedsSklearn).code != 0) GTEST_SKIP() << "no python3-sklearn";
  if (!fs::exists(kHeart)) GTEST_SKIP() << "no liblinear-tools, or without its examples";
  folder_.write("heart/job.toml", kHeartJob);
  succeed(fmt::format("sed -n 'p;n' {} >heart/train.txt; sed -n 'n;p' {} >heart/test.txt", kHeart,
                      kHeart));
  succeed("paddle train --local --config=heart/job.toml --save_dir=save --seed=1");
  const std::string saved = "save/pass-00019";
  const Ran tested =
      succeed(fmt::format("paddle test --snapshot={} --data=heart/test.txt --json", saved));
  EXPECT_EQ(field(tested.out, "samples"), 135);
  EXPECT_GT(field(tested.out, "auc"), 0.85);
  const Ran auc = succeed(sklearn_auc(saved, "heart/test.txt"));
  ASSERT_TRUE(auc.out.starts_with("135 ")) << auc.out;
  EXPECT_NEAR(std::stod(auc.out.substr(4)), field(tested.out, "auc"), 1e-4);
}

}  // namespace
}  // namespace paddle::test
