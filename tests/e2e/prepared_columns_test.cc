// Numbers as the network sees them, from a file of raw columns: those that scikit-learn's
// transformers make of the same file, value by value.
#include <cmath>

#include "base/rng.h"
#include "tests/e2e/trained_model.h"
#include "tests/support/price_network.h"

namespace paddle::test {
namespace {

constexpr const char* kColumnsJob = R"toml(
[data]
train = "train.csv"
format = "csv"
columns = ["a", "b", "c", "d", "kind"]
header = true
statistics = "statistics.json"
[[data.slot]]
name = "standard"
type = "float"
columns = ["a", "b", "c", "d"]
missing = "mean"
missing_indicator = true
normalize = "standard"
[[data.slot]]
name = "min_max"
type = "float"
columns = ["a", "b", "c", "d"]
missing = -2.5
normalize = "min_max"
[[data.slot]]
name = "filled"
type = "float"
columns = ["a", "b", "c", "d"]
missing = "mean"
[[data.slot]]
name = "buckets"
type = "float"
columns = ["a", "b", "c", "d"]
missing = "mean"
bucket = 7
[[data.slot]]
name = "kind"
type = "id"
labels = "learned"
[[layer]]
name = "of_buckets"
type = "embedding"
input = ["buckets"]
pooling = "concat"
length = 4
size = 1
vocabulary = 28
weight = { initial_std = 1.0 }
[[layer]]
name = "out"
type = "fc"
input = ["standard", "min_max", "of_buckets"]
size = 4
[[layer]]
name = "cost"
type = "softmax_cross_entropy"
input = ["out"]
label = "kind"
)toml";

// Columns of unlike sizes; "c" has few values, and "d" one.
std::string table() {
  Rng rng(3);
  std::string text = "a,b,c,d,kind\n";
  const std::vector<std::string> kinds{"no", "Yes", "10", "2"};
  for (std::uint64_t i = 0; i < 1000; ++i) {
    const auto field = [&](const std::string& number) {
      text += (rng.below(30) == 0 ? i % 2 == 0 ? "" : "NA" : number) + ",";
    };
    field(fmt::format("{}", rng.normal() * 1e6F));
    field(fmt::format("{:.3f}", rng.uniform()));
    field(fmt::format("{}", rng.below(4)));
    text += "3.25,";
    text += kinds[rng.below(kinds.size())] + "\n";
  }
  return text;
}

// Reads the file as numbers of float32, as the trainer does, and the outputs of `predict` for each
// slot. An id of a bucket is known by its row in the embedding.
constexpr const char* kCompare = R"python(
import csv, json, numpy
from sklearn.impute import SimpleImputer, MissingIndicator
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (KBinsDiscretizer, LabelEncoder, MinMaxScaler, OneHotEncoder,
                                   StandardScaler)
rows = list(csv.reader(open("train.csv")))[1:]
raw = numpy.array([[float(x) if x not in ("", "NA") else numpy.nan for x in row[:4]] for row in rows],
                  dtype=numpy.float32).astype(numpy.float64)
made = lambda slot: numpy.array([json.loads(line)["values"] for line in open(slot)])
def near(slot, wanted):
    difference = numpy.abs(made(slot) - wanted) / numpy.maximum(1, numpy.abs(wanted))
    assert made(slot).shape == wanted.shape and difference.max() < 2e-7, (slot, difference.max())
mean = SimpleImputer().fit(raw)
filled = mean.transform(raw)
near("filled", filled)
near("standard", numpy.hstack([StandardScaler().fit_transform(filled), numpy.isnan(raw)]))
near("min_max", MinMaxScaler().fit_transform(SimpleImputer(strategy="constant", fill_value=-2.5).fit_transform(raw)))
slots = {slot["name"]: slot for slot in json.load(open("statistics.json"))["slots"]}
bins = KBinsDiscretizer(7, encode="ordinal", strategy="quantile").fit(filled[:, :3])
for column, edges in zip(slots["buckets"]["columns"], bins.bin_edges_):
    assert numpy.array_equal(column["edges"], edges[1:-1]), (column["edges"], edges)
ids = (bins.transform(filled[:, :3]) + [0, 7, 14]).astype(int)
rows_of = numpy.load("model.npz")["_of_buckets.w0"][:, 0]
assert len(set(rows_of)) == 28
assert numpy.array_equal(made("of_buckets")[:, :3].astype(numpy.float32), rows_of[ids]), "buckets"
labels = LabelEncoder().fit([row[4] for row in rows])
assert slots["kind"]["labels"] == list(labels.classes_), slots["kind"]["labels"]
# An id is the place of OneHotEncoder's 1.
hot = OneHotEncoder(categories=[range(7)] * 3).fit_transform(bins.transform(filled[:, :3]))
assert numpy.array_equal(hot.indices.reshape(-1, 3), ids), "one-hot buckets"
texts = OneHotEncoder().fit([row[4:5] for row in rows])
assert slots["kind"]["labels"] == list(texts.categories_[0]), texts.categories_
print("equal")
)python";

class PreparedColumns : public TrainedModel {};

TEST_F(PreparedColumns, AreThoseOfScikitLearn) {
  if (shell("/usr/bin/python3 -c 'import sklearn.preprocessing'").code != 0)
    GTEST_SKIP() << "no python3-sklearn";
  folder_.write("job.toml", kColumnsJob);
  folder_.write("train.csv", table());
  folder_.write("compare.py", kCompare);
  succeed("paddle statistics --config=job.toml --output=statistics.json");
  succeed("paddle train --local --config=job.toml --save_dir=save");
  for (const char* const slot : {"standard", "min_max", "filled", "of_buckets"}) {
    succeed(
        fmt::format("paddle predict --snapshot=save/pass-00000 --data=train.csv --layer={0} "
                    "--output=jsonl >{0}",
                    slot));
  }
  succeed("paddle export --snapshot=save/pass-00000 --format=npz --output=model.npz");
  EXPECT_EQ(succeed("/usr/bin/python3 compare.py").out, "equal\n");
}

// A batch has the gradient of one in which each record is there as often as its weight says. The
// sums of both batches' weights are equal, because a gradient is divided by the records.
TEST_F(PreparedColumns, ARecordOfWeight2CountsAsTwoAndOneOfWeight0AsNone) {
  const auto write = [&](const std::string& name, const std::string& keys, const std::string& slot,
                         const std::string& lines) {
    folder_.write(name + ".csv", lines);
    folder_.write(name + ".toml", "[data]\ntrain = \"" + name + ".csv\"\nformat = \"csv\"\n" +
                                      "columns = [\"area\", \"price\", \"times\"]\n" + keys +
                                      kPriceNetwork + slot +
                                      "[optimizer]\nlearning_rate = 0.3\n"
                                      "[train]\npasses = 5\nbatch_size = 8\n");
    succeed(fmt::format("paddle train --local --config={0}.toml --save_dir={0}", name));
    std::vector<double> estimates;
    for (const std::string& line :
         lines_of(succeed(fmt::format("paddle predict --snapshot={}/pass-00004 "
                                      "--data=repeated.csv --layer=estimate --output=jsonl",
                                      name))
                      .out)) {
      const std::size_t at = line.find("\"values\":[");
      EXPECT_NE(at, line.npos) << line;
      estimates.push_back(std::stod(line.substr(at + std::string("\"values\":[").size())));
    }
    return estimates;
  };
  const std::string slot = "[[data.slot]]\nname = \"times\"\ntype = \"float\"\n";
  const auto repeated =
      write("repeated", "", slot,
            "0.1,1,1\n0.1,1,1\n0.4,3,1\n0.7,2,1\n0.7,2,1\n0.7,2,1\n0.9,5,1\n0.3,2.5,1\n");
  const std::string records =
      "0.1,1,2\n0.2,-9,0\n0.4,3,1\n0.7,2,3\n0.8,70,0\n0.9,5,1\n0.5,-3,0\n0.3,2.5,1\n";
  const auto weighted = write("weighted", "weight = \"times\"\n", slot, records);
  const auto unweighted = write("unweighted", "", slot, records);
  ASSERT_EQ(repeated.size(), 8U);
  ASSERT_EQ(weighted.size(), 8U);
  for (std::size_t i = 0; i < weighted.size(); ++i) {
    EXPECT_NEAR(weighted[i], repeated[i], 1e-6) << i;
    EXPECT_GT(std::abs(unweighted[i] - repeated[i]), 0.1) << i;
  }
}

}  // namespace
}  // namespace paddle::test
