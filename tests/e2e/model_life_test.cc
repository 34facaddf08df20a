// A model's life after training: snapshots of real templates are tested and asked for predictions,
// without the job.toml and the dictionary they were trained with.
#include <algorithm>
#include <cmath>
#include <regex>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/e2e/local_training_job.h"
#include "tests/e2e/trained_model.h"

namespace paddle::test {
namespace {

namespace fs = std::filesystem;

// The fields from "samples" on that stand in both lines of JSON.
std::string figures(const std::string& json) {
  const std::size_t begin = json.find("\"samples\":");
  EXPECT_NE(begin, std::string::npos) << json;
  if (begin == std::string::npos) return "";
  return json.substr(
      begin, std::min(json.find(",\"examples_per_second\""), json.find(",\"rows\"")) - begin);
}

double field(const std::string& json, const std::string& name) {
  const std::size_t at = json.find("\"" + name + "\":");
  EXPECT_NE(at, std::string::npos) << name << " in " << json;
  return at == std::string::npos ? 0 : std::stod(json.substr(at + name.size() + 3));
}

// The share of pairs of a click and none that the scores order right: not as the engine has it.
double auc_of(const std::vector<std::string>& lines) {
  std::vector<std::pair<double, int>> scored;
  for (const std::string& line : lines)
    scored.emplace_back(std::stod(line.substr(line.find(',') + 1)), line[0] - '0');
  std::ranges::sort(scored);
  double ranks = 0, positives = 0;
  for (std::size_t i = 0; i < scored.size();) {
    std::size_t end = i;
    while (end < scored.size() && scored[end].first == scored[i].first) ++end;
    const double rank = static_cast<double>(i + end + 1) / 2;
    for (; i < end; ++i) {
      if (scored[i].second == 0) continue;
      ranks += rank;
      ++positives;
    }
  }
  const double negatives = static_cast<double>(scored.size()) - positives;
  return (ranks - positives * (positives + 1) / 2) / (positives * negatives);
}

class ModelLife : public TrainedModel {
 protected:
  // Of every pass, as training logged it.
  void expect_the_digits_of_training(const std::string& name,
                                     const std::vector<std::string>& tests) {
    ASSERT_FALSE(tests.empty());
    for (std::size_t pass = 0; pass < tests.size(); ++pass) {
      const Ran tested = succeed(fmt::format(
          "paddle test --snapshot={0}-save/pass-{1:05} --workspace={0} --json", name, pass));
      EXPECT_EQ(figures(tested.out), figures(tests[pass])) << name << " pass " << pass;
    }
  }

  void expect_the_digits_of(const Job& job, std::size_t passes) {
    std::size_t pass = 0;
    for (const std::string& line : lines_of(job.metrics("job", 0))) {
      if (!line.starts_with(R"({"kind":"test")")) continue;
      const Ran tested =
          succeed(fmt::format("paddle test --snapshot={}/pass-{:05} --workspace={} --json",
                              job.save_dir("job"), pass++, job.folder().path()));
      EXPECT_EQ(figures(tested.out), figures(line)) << pass;
    }
    EXPECT_EQ(pass, passes);
  }
};

constexpr const char* kClicks = "--values 5 --examples 6000 --test 2000";

// Two threads multiply at once, and OpenBLAS does so in no thread of its own. One thread may differ
// in the last digits: it adds up the gradients of a batch in one piece.
TEST_F(ModelLife, ThreadsOfATrainerGiveTheSameDigitsEachTime) {
  train("ctr_dnn", kClicks, "--num_passes=1");
  succeed("cp ctr_dnn-save/pass-00000/job.toml ctr_dnn");
  std::string expected;
  for (int time = 0; time < 4; ++time) {
    succeed(
        "rm -rf save lines && paddle train --local --config=ctr_dnn/job.toml --save_dir=save "
        "--metrics=lines --set=train.batch_size=64 --num_passes=1 --trainer_count=2");
    const auto lines = lines_of(TemporaryFolder::read(folder_ / "lines"));
    const auto test = std::ranges::find_if(
        lines, [](const std::string& line) { return line.starts_with(R"({"kind":"test")"); });
    ASSERT_NE(test, lines.end());
    if (expected.empty()) expected = figures(*test);
    EXPECT_EQ(figures(*test), expected) << time;
  }
  const std::string version = succeed("paddle version").out;
  EXPECT_NE(version.find("threads of its own: 0"), std::string::npos) << version;
}

TEST_F(ModelLife, ClicksAreTestedAndPredicted) {
  const auto tests =
      train("ctr_dnn", kClicks, "--num_passes=2 --trainer_count=2 --set=train.batch_size=64");
  expect_the_digits_of_training("ctr_dnn", tests);
  const std::string saved = "ctr_dnn-save/pass-00001";
  EXPECT_EQ(TemporaryFolder::read(folder_ / (saved + "/path.txt")), "job.toml");
  EXPECT_EQ(TemporaryFolder::read(folder_ / (saved + "/job.toml")), job_);

  // A line a record, in their order, whatever the number of threads and of files.
  const std::string predict = "paddle predict --snapshot=" + saved + " --data=";
  const Ran one = succeed(predict + "ctr_dnn/data/test.txt --threads=1");
  const auto lines = lines_of(one.out);
  const auto records = lines_of(TemporaryFolder::read(folder_ / "ctr_dnn/data/test.txt"));
  ASSERT_EQ(lines.size(), records.size());
  for (std::size_t i = 0; i < lines.size(); ++i) {
    ASSERT_TRUE(std::regex_match(lines[i], std::regex(R"([01],[0-9.e-]+)"))) << lines[i];
    ASSERT_EQ(lines[i][0], records[i][0]) << i;
  }
  EXPECT_EQ(one.out, succeed(predict + "ctr_dnn/data/test.txt --threads=5").out);
  EXPECT_EQ(one.out, succeed("cat ctr_dnn/data/test.txt | " + predict + "- --threads=3").out);
  succeed("split -l 700 -d ctr_dnn/data/test.txt ctr_dnn/part- && gzip ctr_dnn/part-00");
  EXPECT_EQ(one.out, succeed(predict + "'ctr_dnn/part-*'").out);
  EXPECT_EQ(one.out, succeed("cd ctr_dnn && paddle predict --snapshot=../" + saved +
                             " --data='../ctr_dnn/part-*' --set=data.files_at_once=2")
                         .out);

  // The evaluator counts in 4096 buckets: half of the pairs that share one may be wrong.
  const double auc = field(tests.back(), "auc");
  EXPECT_GT(auc, 0.6);
  EXPECT_NEAR(auc_of(lines), auc, 2e-3);

  const auto objects = lines_of(succeed(predict + "ctr_dnn/data/test.txt --output=jsonl").out);
  ASSERT_EQ(objects.size(), lines.size());
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::size_t comma = lines[i].find(',');
    EXPECT_EQ(objects[i], fmt::format(R"({{"label":{},"score":{}}})", lines[i].substr(0, comma),
                                      lines[i].substr(comma + 1)));
  }
  // The logit below the probability, and a layer of embeddings that others take over in training.
  const auto logits = lines_of(succeed(predict + "ctr_dnn/data/test.txt --layer=click").out);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const double logit = std::stod(logits[i].substr(2));
    EXPECT_NEAR(1 / (1 + std::exp(-logit)), std::stod(lines[i].substr(2)), 1e-6);
  }
  const auto factors = lines_of(succeed(predict + "ctr_dnn/data/test.txt --layer=categories").out);
  EXPECT_EQ(std::ranges::count(factors.front(), ','), 26 * 10);
  EXPECT_EQ(succeed(predict + "ctr_dnn/data/test.txt | head -n 1").out, lines.front() + "\n");
  EXPECT_EQ(succeed(predict + "ctr_dnn/data/test.txt | head -n 1").error, "");

  // Rows that the table lacks are told.
  EXPECT_EQ(one.error.find("found none"), std::string::npos) << one.error;
  succeed("sed 's/[0-9a-f]*$/feedbeef/' ctr_dnn/data/test.txt >ctr_dnn/other.txt");
  const Ran other = succeed(predict + "ctr_dnn/other.txt");
  EXPECT_EQ(lines_of(other.out).size(), records.size());
  EXPECT_NE(other.error.find(" look-ups of rows"), std::string::npos) << other.error;
  const Ran tested = succeed("paddle test --snapshot=" + saved + " --data=ctr_dnn/other.txt");
  EXPECT_NE(tested.out.find("Test samples=2000 cost="), std::string::npos) << tested.out;
  EXPECT_NE(tested.error.find(" look-ups of rows"), std::string::npos) << tested.error;
}

TEST_F(ModelLife, WhatIsWrongIsNamedWithTheNextStep) {
  train("ctr_dnn", kClicks, "--num_passes=1 --set=train.batch_size=500");
  const std::string saved = "ctr_dnn-save/pass-00000";
  const std::string predict = "paddle predict --snapshot=" + saved;
  fails("paddle test", 2, "--snapshot is missing", "paddle test --snapshot=output/pass-00000");
  fails("paddle test --snapshot=nowhere", 2, "nowhere: there is no such folder", "hint");
  fails("paddle test --snapshot=ctr_dnn-save", 2, "ctr_dnn-save is no snapshot, but has pass-00000",
        "--snapshot=ctr_dnn-save/pass-00000");
  fails("paddle predict --snapshot=ctr_dnn --data=x", 6, "ctr_dnn/MANIFEST",
        "without MANIFEST is not a complete snapshot");
  fails("paddle test --snapshot=" + saved, 6, "no file matches 'data/test.txt' in .",
        "--workspace=DIR");
  fails(predict, 2, "--data is missing", "--data=- reads them from stdin");
  fails(predict + " --data='ctr_dnn/none*'", 6, "no file matches 'ctr_dnn/none*'", "--data=GLOB");
  fails(predict + " --data='none/*.txt'", 6, "no file matches 'none/*.txt'", "--data=GLOB");
  fails(predict + " --data=ctr_dnn/data/test.txt --layer=clik", 2,
        "no layer 'clik', did you mean 'click'?", "layers with outputs are dense, categories, fc1");
  fails(predict + " --data=ctr_dnn/data/test.txt --layer=cost", 2,
        "layer 'cost' is a cost, which has no output", "layers with outputs are");
  fails(predict + " --data=ctr_dnn/data/test.txt --output=xml", 2, "--output is 'xml'", "");
  succeed("echo 'no clicks' >words.txt");
  fails(predict + " --data=words.txt", 6, "words.txt:1: ", "on_bad_record");
  const Ran left_out = succeed("cat words.txt ctr_dnn/data/test.txt | " + predict +
                               " --data=- --set=data.on_bad_record=skip");
  EXPECT_EQ(lines_of(left_out.out).size(), 2000U);
  EXPECT_NE(left_out.error.find("1 bad records have no line"), std::string::npos) << left_out.error;

  // Standard input is read from where it is, and no record is no result.
  const auto all = lines_of(succeed(predict + " --data=ctr_dnn/data/test.txt").out);
  const Ran rest = succeed("{ head -c $(head -n 1 ctr_dnn/data/test.txt | wc -c) >/dev/null; " +
                           predict + " --data=-; } <ctr_dnn/data/test.txt");
  const auto others = lines_of(rest.out);
  ASSERT_EQ(others.size(), all.size() - 1);
  for (std::size_t i = 0; i < others.size(); ++i)
    ASSERT_NEAR(std::stod(others[i].substr(2)), std::stod(all[i + 1].substr(2)), 1e-6) << i;
  const std::string test = "paddle test --snapshot=" + saved;
  fails(test + " --data=- </dev/null", 6, "stdin has no record", "nothing to test on");
  fails(test + " --data=words.txt --set=data.on_bad_record=skip --json", 6,
        "words.txt has no record that is not bad", "");
  fails(test + " --workspace=ctr_dnn --json >/dev/full", 7, "stdout cannot be written", "");
  EXPECT_EQ(shell(test + " --workspace=ctr_dnn | true").error, "");
  fails(predict + " --data=ctr_dnn/data/test.txt --model_file=words.txt=words.txt", 2,
        "depends on no 'words.txt'", "it depends on no file");

  // A file of the description is as much a part of the snapshot as the values are.
  succeed("echo >>" + saved + "/model/job.toml");
  fails("paddle test --snapshot=" + saved + " --workspace=ctr_dnn", 6, "model/job.toml", "");
  succeed("paddle verify ctr_dnn-save || true");
  EXPECT_EQ(shell("paddle verify ctr_dnn-save").code, 6);
}

TEST_F(ModelLife, AProgramThatTheSnapshotBringsRunsOnlyWhereItIsAllowed) {
  train("ctr_dnn", kClicks,
        "--num_passes=1 --set=train.batch_size=500 "
        R"(--set='data.pipe_command=["sh", "-c", "touch ran && cat"]')");
  fs::remove(folder_ / "ctr_dnn/ran");
  const std::string saved = " --snapshot=ctr_dnn-save/pass-00000 --workspace=ctr_dnn ";
  fails("paddle test" + saved, 2, "would run the program of its data.pipe_command: 'sh' '-c'",
        "--allow_pipe_command");
  fails("paddle predict --data=data/test.txt" + saved, 2, "data.pipe_command",
        "--allow_pipe_command");
  EXPECT_FALSE(fs::exists(folder_ / "ctr_dnn/ran"));
  const Ran with_own = succeed("paddle test" + saved + R"(--set='data.pipe_command=["cat"]')");
  EXPECT_FALSE(fs::exists(folder_ / "ctr_dnn/ran"));
  EXPECT_EQ(succeed("paddle test --allow_pipe_command" + saved).out, with_own.out);
  EXPECT_TRUE(fs::exists(folder_ / "ctr_dnn/ran"));
}

std::string topical_text() {
  std::string text;
  for (int i = 0; i < 600; ++i) {
    for (int j = 0; j < 8; ++j) text += fmt::format("t{}w{} ", i % 7, (i * 5 + j * j) % 6);
    text += '\n';
  }
  return text;
}

TEST_F(ModelLife, WordsAreTestedAndPredicted) {
  folder_.write("text.txt", topical_text());
  const auto tests = train("word2vec", "--keep-tokens --minimum 0 text.txt", "--num_passes=2");
  expect_the_digits_of_training("word2vec", tests);
  const std::string predict =
      "paddle predict --snapshot=word2vec-save/pass-00001 --data=word2vec/data/test.txt";
  const Ran predicted = succeed(predict);
  // The next word, the likeliest word and how likely that is.
  double right = 0;
  const auto lines = lines_of(predicted.out);
  ASSERT_EQ(lines.size(), static_cast<std::size_t>(field(tests.back(), "samples")));
  for (const std::string& line : lines) {
    std::smatch parts;
    ASSERT_TRUE(std::regex_match(line, parts, std::regex(R"((\d+),(\d+),([0-9.e-]+))"))) << line;
    right += parts[1] == parts[2] ? 1 : 0;
    EXPECT_LE(std::stod(parts[3]), 1);
  }
  EXPECT_NEAR(1 - right / static_cast<double>(lines.size()),
              field(tests.back(), "classification_error"), 1e-6);
  EXPECT_EQ(predicted.out, succeed(predict + " --threads=3").out);
  const auto hidden = lines_of(succeed(predict + " --layer=hidden --output=jsonl").out);
  EXPECT_TRUE(hidden.front().starts_with(R"({"label":)")) << hidden.front();
  EXPECT_EQ(std::ranges::count(hidden.front(), ','), 256);
}

TEST_F(ModelLife, ASampledCostIsTestedAndHasNoScore) {
  folder_.write("text.txt", topical_text());
  const auto tests = train("skipgram", "--keep-tokens --minimum 0 text.txt", "--num_passes=1");
  expect_the_digits_of_training("skipgram", tests);
  const std::string predict =
      "paddle predict --snapshot=skipgram-save/pass-00000 --data=skipgram/data/test.txt";
  fails(predict, 2, "is of type negative_sampling", "--layer=word prints what it reads");
  EXPECT_EQ(std::ranges::count(lines_of(succeed(predict + " --layer=word").out).front(), ','), 64);
}

std::string labelled_lines() {
  std::string text;
  for (int i = 0; i < 400; ++i)
    text += fmt::format("{}\tword{} word{} same\n", i % 2, i % 2 + 2 * (i % 5), i % 9);
  return text;
}

TEST_F(ModelLife, ClassesAndNumbersHaveScoresToo) {
  folder_.write("texts.txt", labelled_lines());
  const auto texts = train("quick_start", "texts.txt", "--num_passes=1");
  expect_the_digits_of_training("quick_start", texts);
  double wrong = 0;
  const auto scores = lines_of(
      succeed("paddle predict --snapshot=quick_start-save/pass-00000 --workspace=quick_start "
              "--data='data/test.txt'")
          .out);
  for (const std::string& line : scores) {
    const bool is_second = std::stod(line.substr(2)) > 0.5;
    wrong += is_second == (line[0] == '1') ? 0 : 1;
  }
  EXPECT_NEAR(wrong / static_cast<double>(scores.size()),
              field(texts.back(), "classification_error"), 1e-6);

  const auto ratings =
      train("recommender", "--users 50 --items 50 --ratings 3000", "--num_passes=1");
  expect_the_digits_of_training("recommender", ratings);
  double squares = 0;
  const auto stars = lines_of(succeed("paddle predict --snapshot=recommender-save/pass-00000 "
                                      "--data=recommender/data/test.txt")
                                  .out);
  for (const std::string& line : stars) {
    const double off = std::stod(line) - std::stod(line.substr(line.find(',') + 1));
    squares += off * off;
  }
  EXPECT_NEAR(std::sqrt(squares / static_cast<double>(stars.size())), field(ratings.back(), "rmse"),
              1e-5);
}

TEST_F(ModelLife, OfATrainerGroupWithoutPservers) {
  Job job;
  job.write_dense_ngram({90, 0, 40});
  ASSERT_TRUE(job.run(
      "job", {3, 0},
      {"--num_passes=2", "--set=train.snapshots_kept=0", "--set=data.test=data/train.txt-00002"}))
      << job.output("job", 0);
  expect_the_digits_of(job, 2);
  const Ran predicted = succeed(fmt::format(
      "paddle predict --snapshot={}/pass-00001 --workspace={} --data=data/train.txt-00002",
      job.save_dir("job"), job.folder().path()));
  EXPECT_NE(predicted.out, "");
}

// Rows that wait for admission, that differ from a full snapshot, and averages of parameters.
TEST_F(ModelLife, OfSeveralTrainersWithEveryKindOfTable) {
  Job job;
  job.write_clicks(2, 400);
  const std::vector<std::string> flags{"--num_passes=3",
                                       "--set=train.snapshots_kept=0",
                                       "--set=train.full_snapshot_period=3",
                                       "--set=data.test=data/train.txt-00001",
                                       "--set=optimizer.average_window=0.5",
                                       "--set=optimizer.method=adagrad"};
  ASSERT_TRUE(job.run("job", {2, 2, 1, 2}, flags)) << job.output("job", 0);
  expect_the_digits_of(job, 3);
}

// Reads exports with numpy, and compares them with paddle's own text.
constexpr const char* kReadBack = R"py(
import json, os, struct, sys
import numpy as np
text = {}
for line in open("words.txt"):
    parts = line.split()
    text[int(parts[0])] = np.array([float(x) for x in parts[1:]], dtype=np.float32)
ids = sorted(text)
rows = np.stack([text[i] for i in ids])

table = np.load("words.npy")
assert list(table["id"]) == ids, "npy ids"
assert (table["values"] == rows).all(), "npy values"

archive = np.load("model.npz")
assert list(archive["_proj.ids"]) == ids and (archive["_proj.values"] == rows).all(), "npz"
weights = archive["_hidden.w0"]
assert weights.shape == (128, 256) and weights.dtype == np.float32, weights.shape

raw = open("model.safetensors", "rb").read()
size, = struct.unpack("<Q", raw[:8])
header = json.loads(raw[8:8 + size])
def tensor(name):
    entry = header[name]
    begin, end = entry["data_offsets"]
    kind = {"F32": np.float32, "I64": np.int64}[entry["dtype"]]
    return np.frombuffer(raw[8 + size + begin:8 + size + end], dtype=kind).reshape(entry["shape"])
assert list(tensor("_proj.ids")) == ids and (tensor("_proj.values") == rows).all(), "safetensors"
assert (tensor("_hidden.w0") == weights).all(), "safetensors dense"

words = open("dictionary.txt").read().split("\n")
lines = open("words.vec").read().splitlines()
assert lines[0] == "%d %d" % rows.shape, lines[0]
assert [line.split()[0] for line in lines[1:]] == [words[i] for i in ids], "vec words"
print("read back", len(ids))
)py";

TEST_F(ModelLife, ExportsAreReadByOthers) {
  if (shell("/usr/bin/python3 -c 'import numpy'").code != 0) GTEST_SKIP() << "no python3-numpy";
  folder_.write("text.txt", topical_text());
  train("word2vec", "--keep-tokens --minimum 0 text.txt", "--num_passes=1");
  const std::string saved = "word2vec-save/pass-00000";
  succeed("cp " + saved + "/model/dictionary.txt dictionary.txt");
  const std::string one = "paddle export --snapshot=" + saved + " --parameter=_proj ";
  succeed(one + ">words.txt");
  succeed(one + "--format=npy --output=words.npy");
  succeed(one + "--format=vec >words.vec");
  succeed("paddle export --snapshot=" + saved + " --format=npz --output=model.npz");
  succeed("paddle export --snapshot=" + saved + " --format=safetensors >model.safetensors");
  folder_.write("read_back.py", kReadBack);
  const Ran read = succeed("/usr/bin/python3 read_back.py");
  EXPECT_NE(read.out.find("read back "), std::string::npos) << read.out << read.error;

  const Ran list = succeed("paddle export --snapshot=" + saved + " --list");
  EXPECT_TRUE(std::regex_search(list.out, std::regex("_proj +table +\\d+ x 32 +\\d+ bytes")))
      << list.out;
  EXPECT_EQ(list.out, succeed("paddle export --snapshot=" + saved).out);
  EXPECT_NE(
      succeed("paddle export --list --json --snapshot=" + saved)
          .out.find(R"({"name":"_hidden.w0","kind":"dense","shape":[128,256],"bytes":131072})"),
      std::string::npos);
  EXPECT_EQ(succeed(one + "| head -n 1").error, "");
  fails(one + "--format=xml", 2, "--format is 'xml'", "formats are text, vec, npy");
  fails("paddle export --snapshot=" + saved + " --format=npy --output=x", 2,
        "--format=npy is of one parameter", "--list shows");
  fails("paddle export --snapshot=" + saved + " --format=npz --parameter=_proj", 2,
        "--format=npz needs --output=FILE", "");
  fails(one + "--output=none/x", 7, "none/x", "");
  fails(one + "--format=npy --dictionary=dictionary.txt", 2, "--dictionary is for --format=vec",
        "");
  fails("paddle export --snapshot=" + saved + " --output=model.npz", 2,
        "--parameter or --format is missing", "--format=npz has all");

  // Streams are written as they are, and mistakes of flags are told before the snapshot is read.
  succeed("mkfifo pipe && { cat pipe >piped.txt & " + one + "--output=pipe; wait; }");
  EXPECT_EQ(TemporaryFolder::read(folder_ / "piped.txt"),
            TemporaryFolder::read(folder_ / "words.txt"));
  fails("paddle export --snapshot=" + saved + " --format=npz --output=/dev/null", 2,
        "/dev/null is no file", "safetensors has the same arrays");
  succeed("echo >>" + saved + "/model/job.toml");
  fails("mkdir folder && " + one + "--output=folder", 2, "folder: is a folder", "");
  fails(one, 6, "model/job.toml", "");
  fails(one + "--format=xml", 2, "--format is 'xml'", "");
}

TEST_F(ModelLife, GensimReadsTheWords) {
  if (shell("/usr/bin/python3 -c 'import gensim'").code != 0) GTEST_SKIP() << "no python3-gensim";
  folder_.write("text.txt", topical_text());
  train("word2vec", "--keep-tokens --minimum 0 text.txt", "--num_passes=1");
  const std::string one =
      "paddle export --snapshot=word2vec-save/pass-00000 --parameter=_proj --format=";
  succeed(one + "text >words.txt && " + one + "vec >words.vec");
  succeed(
      "/usr/bin/python3 -c 'import gensim, numpy; from gensim.models import KeyedVectors as K; "
      "vectors = K.load_word2vec_format(\"words.vec\"); rows = open(\"words.txt\"); "
      "assert all((vectors.vectors[i] == numpy.array(line.split()[1:], dtype=numpy.float32)).all() "
      "for i, line in enumerate(rows))'");
}

TEST_F(ModelLife, WordsAreNearestToThoseOfTheirTopic) {
  folder_.write("text.txt", topical_text());
  train("word2vec", "--keep-tokens --minimum 0 text.txt", "--num_passes=2");
  const std::string nearest = "paddle nearest --snapshot=word2vec-save/pass-00001 ";
  const auto lines = lines_of(succeed(nearest + "--count=3 t1w1 t5w0").out);
  ASSERT_EQ(lines.size(), 2U);
  const std::regex line(R"((t\dw\d) +(  t\dw\d \(-?[01]\.\d\d\)){3})");
  EXPECT_TRUE(std::regex_match(lines[0], line)) << lines[0];
  EXPECT_TRUE(lines[0].starts_with("t1w1 ") && lines[1].starts_with("t5w0 "));
  EXPECT_EQ(lines[1], lines_of(succeed(nearest + "--count=3 t5w0").out).front());

  const Ran json = succeed(nearest + "--count=1 --json t1w1");
  std::smatch parts;
  ASSERT_TRUE(std::regex_search(json.out, parts, std::regex(R"("word":"t1w1","id":(\d+),)")));
  const std::string id = parts[1];
  EXPECT_NE(json.out.find(R"({"parameter":"_proj","queries":[{"word":"t1w1")"), json.out.npos);
  const Ran by_id = succeed(nearest + "--count=1 --json --ids " + id);
  EXPECT_EQ(by_id.out, std::regex_replace(json.out, std::regex(R"("word":"\w+",)"), ""));

  fails(nearest, 2, "nearest needs words", "paddle nearest --snapshot=");
  fails(nearest + "t1w1 t1w11", 2, "'t1w11' is not in the dictionary", "did you mean 't1w1'?");
  fails(nearest + "t1w1 '<unk>'", 6, "'<unk>' has no row in '_proj'", "training has not met it");
  fails(nearest + "--ids t1w1", 2, "'t1w1' is not the id of a row", "");
  fails(nearest + "--parameter=_prj t1w1", 2, "no parameter '_prj'", "did you mean '_proj'?");
  fails(nearest + "--parameter=_hidden.w0 t1w1", 2, "'t1w1' is not the id of a row", "");
  succeed(nearest + "--parameter=_hidden.w0 5");
}

TEST_F(ModelLife, GensimFindsTheSameNeighbours) {
  if (shell("/usr/bin/python3 -c 'import gensim'").code != 0) GTEST_SKIP() << "no python3-gensim";
  folder_.write("text.txt", topical_text());
  train("word2vec", "--keep-tokens --minimum 0 text.txt", "--num_passes=1");
  const std::string saved = "--snapshot=word2vec-save/pass-00000";
  succeed("paddle export " + saved + " --parameter=_proj --format=vec >words.vec");
  succeed("paddle nearest " + saved + " --json t0w0 t3w2 t6w5 >nearest.json");
  succeed(
      "/usr/bin/python3 -c 'import json; from gensim.models import KeyedVectors as K\n"
      "words = K.load_word2vec_format(\"words.vec\")\n"
      "for query in json.load(open(\"nearest.json\"))[\"queries\"]:\n"
      "  theirs = words.most_similar(query[\"word\"], topn=10)\n"
      "  assert len(query[\"nearest\"]) == 10\n"
      "  for ours, (word, cosine) in zip(query[\"nearest\"], theirs):\n"
      "    assert ours[\"word\"] == word and abs(ours[\"cosine\"] - cosine) < 1e-5, query'");
}

// A network of torch with the values of an export, whose scores are compared with paddle's.
constexpr const char* kTorchReads = R"py(
import json, struct
import numpy, torch

raw = open("model.safetensors", "rb").read()
size, = struct.unpack("<Q", raw[:8])
state = {}
for name, entry in json.loads(raw[8:8 + size]).items():
    if name == "__metadata__": continue
    begin, end = entry["data_offsets"]
    part = bytearray(raw[8 + size + begin:8 + size + end])
    state[name] = torch.frombuffer(part, dtype=torch.float32).reshape(entry["shape"])
archive = numpy.load("model.npz")
assert set(archive) == set(state)
for name in archive: assert torch.equal(torch.from_numpy(archive[name]), state[name]), name
one = torch.from_numpy(numpy.load("hidden2.npy"))
assert torch.equal(one, state["_hidden2.w0"])

layers = []
for name in ["hidden1", "hidden2", "output"]:
    weight = state["_" + name + ".w0"]
    layer = torch.nn.Linear(*weight.shape)
    layer.load_state_dict({"weight": weight.T, "bias": state["_" + name + ".wbias"]})
    layers += [layer, torch.nn.ReLU()]
network = torch.nn.Sequential(*layers[:-1], torch.nn.Softmax(dim=1))
records = numpy.loadtxt("digits/data/test.csv", delimiter=",", dtype=numpy.float32)
with torch.no_grad(): scores = network(torch.from_numpy(records[:, :64]))
lines = [json.loads(line) for line in open("predicted")]
assert len(lines) == len(scores) > 0
for line, row in zip(lines, scores):
    assert abs(row[line["class"]] - line["score"]) < 1e-5 and abs(row.max() - line["score"]) < 1e-5
print("equal", len(lines))
)py";

TEST_F(ModelLife, TorchRunsTheNetworkFromAnExport) {
  if (shell("/usr/bin/python3 -c 'import torch'").code != 0) GTEST_SKIP() << "no python3-torch";
  std::string digits;
  for (int i = 0; i < 300; ++i) {
    for (int j = 0; j < 64; ++j) digits += fmt::format("{},", (i * j + i) % 17);
    digits += fmt::format("{}\n", i % 10);
  }
  folder_.write("digits.txt", digits);
  train("digits", "digits.txt", "--num_passes=3");
  const std::string saved = "--snapshot=digits-save/pass-00002";
  succeed("paddle export " + saved + " --format=safetensors >model.safetensors");
  succeed("paddle export " + saved + " --format=npz --output=model.npz");
  succeed("paddle export " + saved + " --parameter=_hidden2.w0 --format=npy >hidden2.npy");
  succeed("paddle predict " + saved + " --data=digits/data/test.csv --output=jsonl >predicted");
  folder_.write("torch_reads.py", kTorchReads);
  const Ran compared = succeed("/usr/bin/python3 torch_reads.py");
  EXPECT_TRUE(compared.out.starts_with("equal ")) << compared.out << compared.error;
}

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
  EXPECT_NEAR(std::stod(auc.out.substr(5)), field(tests.back(), "auc"), 2e-3);
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
  EXPECT_NEAR(std::stod(auc.out.substr(4)), field(tested.out, "auc"), 2e-3);
}

}  // namespace
}  // namespace paddle::test
