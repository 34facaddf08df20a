// Networks as ONNX models: those of all templates and of every kind of layer give the scores of
// `paddle predict` in onnxruntime. Where that is not installed, a stand-in checks them by the
// package onnx, and runs them by numpy.
#include <iostream>
#include <ostream>
#include <regex>
#include <set>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/rng.h"
#include "tests/e2e/http_client.h"
#include "tests/e2e/trained_model.h"

namespace paddle::test {
namespace {

namespace fs = std::filesystem;

struct Case {
  const char* name;     // of a template
  const char* prepare;  // arguments for its data
  const char* train = "--num_passes=1";
  const char* format = "";  // in compare.py; "": criteo
  const char* layer = "";   // "": the score
};

void PrintTo(const Case& each, std::ostream* out) {
  *out << each.name;
}

constexpr const char* kNoReader = "neither python3-onnxruntime nor python3-onnx";
constexpr const char* kFewClicks = "--values 5 --examples 3000 --test 500";
constexpr const char* kSentences = "--keep-tokens --minimum 0 text.txt";
const std::vector<Case> kCases = {
    {.name = "ctr_dnn", .prepare = kFewClicks},
    {.name = "wide_deep", .prepare = kFewClicks},
    {.name = "deep_fm", .prepare = kFewClicks},
    {.name = "dcn", .prepare = kFewClicks},
    {.name = "word2vec", .prepare = kSentences, .format = "ngram"},
    {.name = "skipgram", .prepare = kSentences, .format = "ngram", .layer = "word"},
    {.name = "quick_start", .prepare = "texts.txt", .format = "bow"},
    {.name = "recommender",
     .prepare = "--users 50 --items 50 --ratings 3000",
     .format = "recommender"},
    {.name = "digits", .prepare = "digits.txt", .format = "digits"},
};

// The first block of the page's section on ONNX that begins with this line.
std::string block_of(const std::string& first) {
  const std::string page = TemporaryFolder::read(fs::path(DOCS_FOLDER) / "model.md");
  const std::size_t at = page.find("```" + first + "\n");
  EXPECT_NE(at, std::string::npos) << first;
  const std::size_t begin = page.find('\n', at) + 1;
  return page.substr(begin, page.find("```", begin) - begin);
}

class OnnxExport : public TrainedModel {
 protected:
  OnnxExport() {
    std::string sentences, texts, digits;
    for (int i = 0; i < 400; ++i) {
      for (int j = 0; j < 8; ++j) sentences += fmt::format("t{}w{} ", i % 7, (i * 5 + j * j) % 6);
      sentences += '\n';
      texts += fmt::format("{}\tword{} word{} same\n", i % 2, i % 2 + 2 * (i % 5), i % 9);
      if (i % 5 == 0) texts += fmt::format("{}\tsame\n", i % 2);
      for (int j = 0; j < 64; ++j) digits += fmt::format("{},", (i * j + i) % 17);
      digits += fmt::format("{}\n", i % 10);
    }
    folder_.write("text.txt", sentences);
    folder_.write("texts.txt", texts);
    folder_.write("digits.txt", digits);
    folder_.write("ids.py", block_of("python ids.py"));
  }

  // Sets the folder that has the stand-in if this machine has no onnxruntime. False: it has not
  // even the package onnx, which the stand-in needs.
  bool has_reader() {
    if (imports("onnxruntime")) return true;
    standin_ = ONNX_FOLDER "/standin";
    return imports("onnx");
  }
  bool imports(const std::string& package) {
    return shell("/usr/bin/python3 -c 'import " + package + "'").code == 0;
  }
  Ran python(const std::string& arguments) {
    return succeed(fmt::format("PYTHONPATH=.:{} /usr/bin/python3 {}", standin_, arguments));
  }
  // The snapshot's network gives predict's scores for these records.
  void expect_the_scores(const std::string& snapshot, const std::string& records,
                         const std::string& format, const std::string& layer = "") {
    const std::string flags =
        fmt::format("--snapshot={}{}", snapshot, layer.empty() ? "" : " --layer=" + layer);
    succeed(fmt::format("paddle export {} --format=onnx --output=model.onnx", flags));
    succeed(fmt::format("paddle predict {} --data='{}' --output=jsonl >predicted", flags, records));
    const Ran compared = python(fmt::format("{}/compare.py model.onnx {} '{}' predicted {}/model",
                                            ONNX_FOLDER, format, records, snapshot));
    EXPECT_TRUE(compared.out.starts_with("equal: ")) << compared.out << compared.error;
    std::cout << compared.out;
  }

  std::string standin_;
};

class OnnxExportOfTemplate : public OnnxExport, public testing::WithParamInterface<Case> {};

TEST_P(OnnxExportOfTemplate, GivesTheScoresOfPredict) {
  if (!has_reader()) GTEST_SKIP() << kNoReader;
  const Case& each = GetParam();
  const std::string name = each.name;
  train(name, each.prepare, each.train);
  const std::string format = each.format;
  expect_the_scores(name + "-save/pass-00000",
                    name + (format == "digits" ? "/data/test.csv" : "/data/test.txt"),
                    format.empty() ? "criteo" : format, each.layer);
}

INSTANTIATE_TEST_SUITE_P(All, OnnxExportOfTemplate, testing::ValuesIn(kCases),
                         [](const auto& each) { return std::string(each.param.name); });

TEST_F(OnnxExport, NoTemplateIsLeftOut) {
  std::set<std::string> names{"grafana",   "mlflow", "notify",    "platforms",
                              "providers", "report", "torch_ctr", "torch_ddp"};
  for (const Case& each : kCases) names.insert(each.name);
  for (const auto& entry : fs::directory_iterator(TEMPLATES_FOLDER))
    EXPECT_TRUE(names.contains(entry.path().filename())) << entry.path();
}

constexpr const char* kEveryLayer = R"toml(
name = "every layer"
[data]
train = "train.txt"
format = "multislot"
[[data.slot]]
name = "user"
type = "id"
[[data.slot]]
name = "tags"
type = "ids"
[[data.slot]]
name = "price"
type = "float"
width = 2
[[data.slot]]
name = "click"
type = "id"
[[layer]]
name = "score"                  # as the output would be called
type = "embedding"
input = ["user"]
size = 4
weight = { initial_mean = 0.5, initial_std = 0.4, sparse = true }
[[layer]]
name = "mean"
type = "embedding"
input = ["tags"]
pooling = "mean"
size = 4
vocabulary = 12
padding_id = 3
[[layer]]
name = "sum"
type = "embedding"
input = ["tags"]
pooling = "sum"
size = 4
padding_id = 5
weight = { name = "shared", initial_std = 0.5, sparse = true }
[[layer]]
name = "first"
type = "embedding"
input = ["tags"]
pooling = "concat"
length = 3
size = 4
weight = { name = "shared", initial_std = 0.5, sparse = true }
[[layer]]
name = "single"
type = "embedding"
input = ["user"]
pooling = "mean"
padding_id = -7
size = 2
weight = { initial_mean = -1.0, initial_std = 0.3, sparse = true, entry_count = 3 }
[[layer]]
name = "row"
type = "concat"
input = ["score", "mean", "price"]
[[layer]]
name = "normal"
type = "layer_norm"
input = ["row"]
[[layer]]
name = "crossed"
type = "cross"
input = ["row", "normal"]
[[layer]]
name = "angle"
type = "cosine_similarity"
input = ["score", "sum"]
scale = 5.0
[[layer]]
name = "product"
type = "multiply"
input = ["score", "sum", "mean"]
[[layer]]
name = "total"
type = "add"
input = ["score", "sum", "mean"]
[[layer]]
name = "hidden"
type = "fc"
input = ["crossed", "first", "price", "product", "total"]
size = 8
activation = "gelu"
[[layer]]
name = "tanh"
type = "activation"
input = ["hidden"]
activation = "tanh"
[[layer]]
name = "shares"
type = "fc"
input = ["hidden"]
size = 4
activation = "softmax"
[[layer]]
name = "pairs"
type = "factorization_machine"
input = ["shares", "first"]
size = 4
[[layer]]
name = "dropped"
type = "dropout"
input = ["shares"]
rate = 0.5
[[layer]]
name = "click_logit"
type = "fc"
input = ["tanh", "angle", "dropped", "pairs", "single"]
size = 1
[[layer]]
name = "cost"
type = "binary_cross_entropy"
input = ["click_logit"]
label = "click"
[optimizer]
method = "adagrad"
learning_rate = 0.1
[train]
batch_size = 32
)toml";

// Users of all sizes of ids, and tags of which some are padding alone; `strangers` too are among
// the users, whom the table lacks.
std::string clicks(int count, const std::vector<std::string>& strangers) {
  const std::vector<std::string> users{"0",
                                       "5",
                                       "9223372036854775806",
                                       "9223372036854775808",
                                       "18446744073709551609",
                                       "18446744073709551615"};
  Rng rng(7);
  std::string text;
  for (int i = 0; i < count; ++i) {
    const std::uint64_t user = rng.below(users.size() + strangers.size());
    const std::uint64_t tags = 1 + rng.below(5);
    text += fmt::format("1 {} {}",
                        user < users.size() ? users[user] : strangers[user - users.size()], tags);
    for (std::uint64_t j = 0; j < tags; ++j) text += fmt::format(" {}", rng.below(12));
    text += fmt::format(" 2 {} {} 1 {}\n", rng.uniform(), rng.uniform(), i % 2);
  }
  return text;
}

TEST_F(OnnxExport, EveryKindOfLayerGivesTheScoresOfPredict) {
  if (!has_reader()) GTEST_SKIP() << kNoReader;
  folder_.write("job.toml", kEveryLayer);
  folder_.write("train.txt", clicks(600, {}));
  folder_.write("new.txt", clicks(200, {"1", "9223372036854775807", "9223372036854775809"}));
  succeed("paddle train --local --config=job.toml --save_dir=save");
  expect_the_scores("save/pass-00000", "train.txt", "multislot");
  expect_the_scores("save/pass-00000", "new.txt", "multislot");
  for (const char* const layer : {"mean", "first", "crossed", "angle", "hidden", "price"})
    expect_the_scores("save/pass-00000", "new.txt", "multislot", layer);
}

// Every way to prepare a number; the constants are some that `paddle statistics` may find.
constexpr const char* kPrepared = R"toml(
[data]
train = "train.txt"
format = "csv"
columns = ["age", "income", "width", "height", "level", "a", "b", "kind", "click"]
statistics = "statistics.json"
[[data.slot]]
name = "age"
type = "float"
missing = "mean"
missing_indicator = true
normalize = "standard"
[[data.slot]]
name = "income"
type = "float"
missing = 0.5
normalize = "log"
[[data.slot]]
name = "size"
type = "float"
columns = ["width", "height"]
missing = "mean"
normalize = "min_max"
[[data.slot]]
name = "level"
type = "float"
missing = -1
bucket = [0, 0.5]
[[data.slot]]
name = "pair"
type = "float"
columns = ["a", "b"]
missing = "mean"
bucket = 4
[[data.slot]]
name = "kind"
type = "id"
labels = "learned"
[[data.slot]]
name = "click"
type = "id"
labels = "learned"
[[layer]]
name = "levels"
type = "embedding"
input = ["level"]
size = 2
vocabulary = 3
weight = { initial_std = 0.5 }
[[layer]]
name = "pairs"
type = "embedding"
input = ["pair"]
pooling = "mean"
size = 3
vocabulary = 8
weight = { initial_std = 0.5 }
[[layer]]
name = "first"
type = "embedding"
input = ["pair"]
pooling = "concat"
length = 2
size = 2
weight = { initial_std = 0.5, sparse = true }
[[layer]]
name = "kinds"
type = "embedding"
input = ["kind"]
size = 2
vocabulary = 3
weight = { initial_std = 0.5 }
[[layer]]
name = "score"
type = "fc"
input = ["age", "income", "size", "levels", "pairs", "first", "kinds"]
size = 1
weight = { initial_std = 0.5 }
[[layer]]
name = "cost"
type = "binary_cross_entropy"
input = ["score"]
label = "click"
[optimizer]
method = "adagrad"
learning_rate = 0.1
[train]
batch_size = 32
)toml";

constexpr const char* kStatistics = R"json({"format":1,"records":400,"slots":[
{"name":"age","columns":[{"count":380,"missing":20,"mean":38.581646755,"fill":38.581646755,"filled_mean":38.581646755,"deviation":13.640223192,"minimum":17,"maximum":90,"edges":[],"quantile_error":0}]},
{"name":"size","columns":[{"count":380,"missing":20,"mean":0.3,"fill":0.3,"filled_mean":0.3,"deviation":1,"minimum":-2.5,"maximum":7.3,"edges":[],"quantile_error":0},
 {"count":400,"missing":0,"mean":5,"fill":5,"filled_mean":5,"deviation":0,"minimum":5,"maximum":5,"edges":[],"quantile_error":0}]},
{"name":"pair","bucket":4,"columns":[{"count":380,"missing":20,"mean":0.4925,"fill":0.4925,"filled_mean":0.4925,"deviation":1,"minimum":0,"maximum":1,"edges":[0.25,0.4925,0.75],"quantile_error":0},
 {"count":400,"missing":0,"mean":1,"fill":1,"filled_mean":1,"deviation":0,"minimum":1,"maximum":1,"edges":[],"quantile_error":0}]},
{"name":"kind","labels":["10","9","Öl"]},
{"name":"click","labels":["no","yes"]}]}
)json";

// Raw columns, each with some fields empty, and with numbers that are edges of buckets.
std::string raw_clicks(int count) {
  const std::vector<std::string> kinds{"Öl", "9", "10"};
  Rng rng(11);
  std::string text;
  const auto field = [&](const std::string& number) {
    text += (rng.below(12) == 0 ? "" : number) + ",";
  };
  for (int i = 0; i < count; ++i) {
    field(fmt::format("{}", 17 + rng.below(74)));
    field(fmt::format("{}", (rng.uniform() - 0.5F) * (i % 3 == 0 ? 1e-5F : 1e5F)));
    field(fmt::format("{}", rng.uniform() * 9 - 2.5F));
    field("5");
    field(i % 5 == 0 ? "0.5" : fmt::format("{}", rng.uniform() * 2 - 0.8F));
    field(i % 7 == 0 ? "0.25" : fmt::format("{}", rng.uniform()));
    field("1");
    text += fmt::format("{},{}\n", kinds[i % kinds.size()], i % 2 == 0 ? "no" : "yes");
  }
  return text;
}

class PreparedNumbers : public OnnxExport {
 protected:
  void train_prepared() {
    folder_.write("job.toml", kPrepared);
    folder_.write("statistics.json", kStatistics);
    folder_.write("train.txt", raw_clicks(400));
    succeed("paddle train --local --config=job.toml --save_dir=save");
    succeed("rm job.toml statistics.json");
  }
};

// The inputs of the model are raw columns, with NaN for missing numbers.
TEST_F(PreparedNumbers, AreThoseOfPredictInOnnx) {
  if (!has_reader()) GTEST_SKIP() << kNoReader;
  train_prepared();
  expect_the_scores("save/pass-00000", "train.txt", "raw");
  for (const char* const layer : {"age", "income", "size", "levels", "pairs", "first", "kinds"})
    expect_the_scores("save/pass-00000", "train.txt", "raw", layer);
}

// Its answers to raw records are the lines of `paddle predict`, but for the header and the label.
TEST_F(PreparedNumbers, AreThoseOfPredictInTheServer) {
  train_prepared();
  const std::string predicted =
      succeed("paddle predict --snapshot=save/pass-00000 --data=train.txt").out;
  Process server({PADDLE_PROGRAM, "serve", "--port=0", "--snapshot=" + folder_ / "save"},
                 folder_ / "serve");
  ASSERT_TRUE(server.prints(" on http://127.0.0.1:")) << server.output();
  const std::string said = server.output();
  HttpClient client(
      static_cast<std::uint16_t>(std::stoi(said.substr(said.find("127.0.0.1:") + 10))));
  const auto reply =
      client.ask("POST", "/v1/predict", raw_clicks(400), "Content-Type: text/plain\r\n");
  ASSERT_TRUE(reply);
  const std::string lines = predicted.substr(predicted.find('\n') + 1);
  EXPECT_EQ(reply->body, std::regex_replace(lines, std::regex("(^|\n)(no|yes),"), "$1"));
}

TEST_F(OnnxExport, WeightsOfIdsAndSeveralClasses) {
  if (!has_reader()) GTEST_SKIP() << kNoReader;
  std::string text;
  for (int i = 0; i < 300; ++i) {
    text += fmt::format("{} {}:0.5", i % 3, i % 3 + 1);
    for (int j = 0; j < i % 4; ++j) text += fmt::format(" {}:{}", 10 + j * 3 + i % 2, 0.25 * j - 1);
    text += '\n';
  }
  folder_.write("train.txt", text);
  for (const char* const pooling : {"sum", "mean"}) {
    folder_.write("job.toml", fmt::format(R"(
[data]
train = "train.txt"
format = "libsvm"
[[layer]]
name = "logits"
type = "embedding"
input = ["features"]
pooling = "{}"
size = 3
weight = {{ sparse = true }}
[[layer]]
name = "cost"
type = "softmax_cross_entropy"
input = ["logits"]
label = "label"
[optimizer]
method = "adagrad"
learning_rate = 0.5
)",
                                          pooling));
    succeed("rm -rf save && paddle train --local --config=job.toml --save_dir=save");
    expect_the_scores("save/pass-00000", "train.txt", "libsvm");
  }
}

TEST_F(OnnxExport, ThePagesProgramRunsAsItStands) {
  if (!has_reader()) GTEST_SKIP() << kNoReader;
  train("quick_start", "texts.txt", "--num_passes=1");
  const std::string saved = "quick_start-save/pass-00000";
  succeed("paddle export --snapshot=" + saved + " --format=onnx >model.onnx");
  succeed("cp " + saved + "/model/dictionary.txt dictionary.txt");
  folder_.write("page.py", block_of("python"));
  const Ran shown = python("page.py");
  EXPECT_EQ(lines_of(shown.out).size(), 2U) << shown.out << shown.error;
}

TEST_F(OnnxExport, WhatHasNoModelIsNamedWithTheNextStep) {
  train("skipgram", kSentences, "--num_passes=1");
  const std::string one = "paddle export --snapshot=skipgram-save/pass-00000 ";
  fails(one + "--format=onnx", 2, "is of type negative_sampling", "--layer=word");
  fails(one + "--format=onnx --layer=wrd", 2, "no layer 'wrd', did you mean 'word'?", "");
  fails(one + "--format=onnx --parameter=_proj", 2, "not one parameter", "--parameter");
  fails(one + "--format=npz --layer=word --output=x", 2, "apply only to --format=onnx", "");
  fails(one + "--format=onx", 2, "unknown --format 'onx'",
        "use one of text, vec, npy, npz, safetensors, onnx");
  fails(one + "--format=onnx --layer=word --set=layer.word.size=3", 2, "", "");
  succeed("rm -r skipgram-save/pass-00000/model && true");
  fails(one + "--format=onnx --layer=word", 6, "model/", "");
}

}  // namespace
}  // namespace paddle::test
