// The areas and the calibration that `paddle test` prints, and scikit-learn's of the scores of
// `paddle predict`.
#include <filesystem>
#include <sstream>

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

// Clicks of users. Some users click more often than others, whatever they see.
constexpr const char* kMakeUsers = R"python(import random
rng = random.Random(7)
for name, count in ("train", 4000), ("test", 3000):
    with open("users/" + name + ".csv", "w") as out:
        for _ in range(count):
            user, a, b = rng.randrange(300), rng.gauss(0, 1), rng.gauss(0, 1)
            click = rng.random() < 1 / (1 + 2.718 ** -(a - b + user % 5 - 3))
            out.write(f"{int(click)},u{user},{a:.4f},{b:.4f}\n")
)python";
constexpr const char* kUsersJob = R"toml(name = "users"
[data]
train = "train.csv"
test = "test.csv"
format = "csv"
columns = ["click", "user", "a", "b"]
[[data.slot]]
name = "click"
type = "id"
[[data.slot]]
name = "user"
type = "hash"
[[data.slot]]
name = "x"
type = "float"
columns = ["a", "b"]
[[layer]]
name = "score"
type = "fc"
input = ["x"]
size = 1
[[layer]]
name = "cost"
type = "binary_cross_entropy"
input = ["score"]
label = "click"
[[evaluator]]
type = "pr_auc"
input = "score"
label = "click"
[[evaluator]]
type = "gauc"
input = "score"
label = "click"
group = "user"
[[evaluator]]
type = "calibration"
input = "score"
label = "click"
[optimizer]
method = "adam"
learning_rate = 0.01
[train]
passes = 2
batch_size = 50
best = "gauc"
stop_when = "pr_auc > 2"
)toml";
constexpr const char* kSklearn = R"python(import numpy, sklearn.metrics, sklearn.calibration
y, p = numpy.loadtxt("scores.csv", delimiter=",").T
users = numpy.array([line.split(",")[1] for line in open("users/test.csv")])
groups = [(y[users == user], p[users == user]) for user in sorted(set(users))]
both = [(len(a), sklearn.metrics.roc_auc_score(a, b)) for a, b in groups if 0 < a.mean() < 1]
shares, means = sklearn.calibration.calibration_curve(y, p, n_bins=10, strategy="quantile")
print(len(y), sklearn.metrics.average_precision_score(y, p),
      sum(n * auc for n, auc in both) / sum(n for n, _ in both), p.mean() / y.mean(),
      *numpy.stack([means, shares], axis=1).flatten())
)python";

std::vector<double> numbers_in(std::string text) {
  for (char& c : text) c = c == ',' ? ' ' : c;
  std::istringstream in(text);
  std::vector<double> numbers;
  for (double number = 0; in >> number;) numbers.push_back(number);
  return numbers;
}

TEST_F(ModelLife, SklearnFindsTheSamePrAucGaucAndCalibration) {
  if (shell(kNeedsSklearn).code != 0) GTEST_SKIP() << "no python3-sklearn";
  folder_.write("users/job.toml", kUsersJob);
  folder_.write("make.py", kMakeUsers);
  folder_.write("compare.py", kSklearn);
  succeed("/usr/bin/python3 make.py");
  succeed("paddle train --local --config=users/job.toml --save_dir=save --metrics=metrics.jsonl");
  const std::string saved = "save/pass-00001";
  const Ran tested =
      succeed(fmt::format("paddle test --snapshot={} --workspace=users --json", saved));
  const Ran found =
      succeed(fmt::format("paddle predict --snapshot={} --data=users/test.csv >scores.csv;"
                          "/usr/bin/python3 compare.py",
                          saved));
  const std::vector<double> numbers = numbers_in(found.out);
  ASSERT_EQ(numbers.size(), 24U) << found.out;
  EXPECT_EQ(numbers[0], 3000);
  EXPECT_NEAR(field(tested.out, "pr_auc"), numbers[1], 1e-6);
  EXPECT_NEAR(field(tested.out, "gauc"), numbers[2], 1e-6);
  EXPECT_NEAR(field(tested.out, "calibration"), numbers[3], 1e-4);
  EXPECT_GT(numbers[2], 0.7);

  // The curve in the metrics, which the report draws.
  const std::string metrics = TemporaryFolder::read(folder_ / "metrics.jsonl");
  const std::string key = R"("curve:calibration:calibration":[)";
  const std::size_t at = metrics.rfind(key);
  ASSERT_NE(at, std::string::npos) << metrics;
  const std::vector<double> curve =
      numbers_in(metrics.substr(at + key.size(), metrics.find(']', at) - at - key.size()));
  ASSERT_EQ(curve.size(), 20U);
  for (std::size_t i = 0; i < curve.size(); ++i) EXPECT_NEAR(curve[i], numbers[4 + i], 1e-4) << i;
  EXPECT_NE(metrics.find(R"("curve:precision_recall:pr_auc":[0,1,)"), std::string::npos);
  EXPECT_NE(metrics.find(R"("total_gauc":)"), std::string::npos) << "over all trainers";
}

}  // namespace
}  // namespace paddle::test
