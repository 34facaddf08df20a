// Exports of a model, as numpy, gensim and torch read them.
#include <regex>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/e2e/model_life_fixture.h"

namespace paddle::test {
namespace {

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
  fails(one + "--format=xml", 2, "unknown --format 'xml'", "use one of text, vec, npy");
  fails("paddle export --snapshot=" + saved + " --format=npy --output=x", 2,
        "--format=npy exports one parameter", "--list shows");
  fails("paddle export --snapshot=" + saved + " --format=npz --parameter=_proj", 2,
        "--format=npz needs --output=FILE", "");
  fails(one + "--output=none/x", 7, "none/x", "");
  fails(one + "--format=npy --dictionary=dictionary.txt", 2,
        "--dictionary applies only to --format=vec", "");
  fails("paddle export --snapshot=" + saved + " --output=model.npz", 2,
        "--parameter or --format is missing", "--format=npz exports all");

  // Streams are written as they are, and mistakes of flags are told before the snapshot is read.
  succeed("mkfifo pipe && { cat pipe >piped.txt & " + one + "--output=pipe; wait; }");
  EXPECT_EQ(TemporaryFolder::read(folder_ / "piped.txt"),
            TemporaryFolder::read(folder_ / "words.txt"));
  fails("paddle export --snapshot=" + saved + " --format=npz --output=/dev/null", 2,
        "/dev/null is not a regular file", "--format=safetensors has the same arrays");
  succeed("echo >>" + saved + "/model/job.toml");
  fails("mkdir folder && " + one + "--output=folder", 2, "folder: is a folder", "");
  fails(one, 6, "model/job.toml", "");
  fails(one + "--format=xml", 2, "unknown --format 'xml'", "");
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

}  // namespace
}  // namespace paddle::test
