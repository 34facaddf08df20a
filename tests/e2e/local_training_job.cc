#include "tests/e2e/local_training_job.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/rng.h"
#include "tests/support/free_ports.h"

namespace paddle::test {
namespace {

constexpr int kWords = 40;

constexpr const char* kLayersOfNgram = R"(
[[layer]]
name = "e0"
type = "embedding"
input = ["word0"]
size = 8
weight = { name = "_proj", initial_std = 0.1, sparse = true }
[[layer]]
name = "e1"
type = "embedding"
input = ["word1"]
size = 8
weight = { name = "_proj", initial_std = 0.1, sparse = true }
[[layer]]
name = "context"
type = "concat"
input = ["e0", "e1"]
[[layer]]
name = "hidden"
type = "fc"
input = ["context"]
size = 16
activation = "sigmoid"
[[layer]]
name = "dropped"
type = "dropout"
input = ["hidden"]
rate = 0.2
[[layer]]
name = "output"
type = "fc"
input = ["dropped"]
size = "dictionary"
[[layer]]
name = "cost"
type = "softmax_cross_entropy"
input = ["output"]
label = "next"
)";

constexpr const char* kLayersOfBags = R"(
[[layer]]
name = "score"
type = "embedding"
input = ["words"]
pooling = "sum"
size = 2
weight = { initial_std = 0.0, sparse = true }
[[layer]]
name = "cost"
type = "softmax_cross_entropy"
input = ["score"]
label = "label"
)";

constexpr const char* kLayersOfClicks = R"(
[[layer]]
name = "ids"
type = "embedding"
input = ["user", "items"]
pooling = "mean"
size = 8
padding_id = 0
weight = { sparse = true }
[[layer]]
name = "pairs"
type = "factorization_machine"
input = ["ids"]
size = 8
[[layer]]
name = "deep"
type = "fc"
input = ["ids", "price"]
size = 16
activation = "relu"
[[layer]]
name = "normal"
type = "layer_norm"
input = ["deep"]
[[layer]]
name = "score"
type = "fc"
input = ["normal", "pairs"]
size = 1
[[layer]]
name = "cost"
type = "binary_cross_entropy"
input = ["score"]
label = "click"
[[layer]]
name = "next"
type = "nce"
input = ["normal"]
label = "bought"
vocabulary = 50
negatives = 4
[[evaluator]]
type = "auc"
input = "score"
label = "click"
[[evaluator]]
type = "precision_recall"
input = "score"
label = "click"
)";

std::string dictionary() {
  std::string text = "<s>\n<e>\n";
  for (int i = 0; i < kWords; ++i) text += fmt::format("w{}\n", i);
  return text + "<unk>\n";
}

// Each word is likely followed by its successor, so there is something to learn.
std::string sentences(int count, std::uint64_t stream) {
  Rng rng(stream);
  std::string text;
  for (int i = 0; i < count; ++i) {
    std::uint64_t word = rng.below(kWords);
    for (int j = 0; j < 6; ++j) {
      text += fmt::format("w{} ", word);
      word = rng.below(4) == 0 ? rng.below(kWords) : (word + 1) % kWords;
    }
    text += '\n';
  }
  return text;
}

}  // namespace

std::vector<std::string> with(std::vector<std::string> flags,
                              const std::vector<std::string>& more) {
  flags.insert(flags.end(), more.begin(), more.end());
  return flags;
}

void Job::write_ngram(int shards, int sentences_each) {
  folder_.write("words.txt", dictionary());
  for (int i = 0; i < shards; ++i) {
    folder_.write(fmt::format("data/train.txt-{:05}", i),
                  sentences(sentences_each, static_cast<std::uint64_t>(i)));
  }
  folder_.write("data/test.txt", sentences(50, 1000));
  folder_.write("job.toml", std::string(R"(name = "ngram"
[data]
train = "data/train.txt-*"
test = "data/test.txt"
format = "ngram"
dictionary = "words.txt"
ngram = 3
)") + kLayersOfNgram + R"(
[optimizer]
method = "adagrad"
learning_rate = 0.1
l2 = 1e-4
[strategy]
min_block_size = 64
[train]
passes = 1
batch_size = 16
log_period = 10
shuffle_records = 500
)");
}

void Job::write_dense_ngram(const std::vector<int>& counts) {
  write_ngram(1, 0);
  for (std::size_t i = 0; i < counts.size(); ++i) {
    folder_.write(fmt::format("data/train.txt-{:05}", i), sentences(counts[i], i));
  }
  std::string job = TemporaryFolder::read(folder_ / "job.toml");
  constexpr std::string_view kSparse = ", sparse = true }";
  for (auto at = job.find(kSparse); at != std::string::npos; at = job.find(kSparse)) {
    job.replace(at, kSparse.size(), " }\nvocabulary = \"dictionary\"");
  }
  folder_.write("job.toml", job);
}

void Job::widen_ngram(int units) {
  std::string job = TemporaryFolder::read(folder_ / "job.toml");
  constexpr std::string_view kHidden = "size = 16\nactivation";
  job.replace(job.find(kHidden), kHidden.size(), fmt::format("size = {}\nactivation", units));
  folder_.write("job.toml", job);
}

void Job::write_bags(const std::vector<int>& counts) {
  folder_.write("words.txt", dictionary());
  for (std::size_t i = 0; i < counts.size(); ++i) {
    Rng rng(i);
    std::string text;
    for (int j = 0; j < counts[i]; ++j) {
      const std::uint64_t label = rng.below(2);
      text += fmt::format("{}\tw{} w{}\n", label, label * 20 + rng.below(20), rng.below(kWords));
    }
    folder_.write(fmt::format("data/train.txt-{:05}", i), text);
  }
  folder_.write("job.toml", std::string(R"(name = "bags"
[data]
train = "data/train.txt-*"
format = "bow"
dictionary = "words.txt"
)") + kLayersOfBags + "[train]\npasses = 2\nbatch_size = 32\n");
}

void Job::write_clicks(int shards, int records) {
  for (int i = 0; i < shards; ++i) {
    Rng rng(static_cast<std::uint64_t>(i) + 77);
    std::string text;
    for (int j = 0; j < records; ++j) {
      const std::uint64_t user = 1 + rng.below(50);
      const std::uint64_t item = 100 + rng.below(20);
      const bool click = rng.below(10) < (user % 2 == 0 ? 8 : 2);
      text += fmt::format("1 {} 2 {} 0 2 0.5 {} 1 {} 1 {}\n", user, item, rng.uniform(),
                          click ? 1 : 0, user % 50);
    }
    folder_.write(fmt::format("data/train.txt-{:05}", i), text);
  }
  std::string slots;
  for (const auto& [name, type] :
       std::vector<std::pair<const char*, const char*>>{{"user", "id"},
                                                        {"items", "ids"},
                                                        {"price", "float"},
                                                        {"click", "id"},
                                                        {"bought", "id"}}) {
    slots += fmt::format("[[data.slot]]\nname = \"{}\"\ntype = \"{}\"\n{}", name, type,
                         std::string_view(name) == "price" ? "width = 2\n" : "");
  }
  folder_.write("job.toml",
                "name = \"clicks\"\n[data]\ntrain = \"data/train.txt-*\"\n"
                "format = \"multislot\"\n" +
                    slots + kLayersOfClicks +
                    "[optimizer]\nmethod = \"adagrad\"\nlearning_rate = 0.1\n"
                    "[strategy]\nmin_block_size = 64\n"
                    "[train]\npasses = 3\nbatch_size = 32\n");
}

std::vector<std::string> Job::train_arguments(const std::string& name, int trainer,
                                              const std::vector<std::string>& flags) const {
  std::vector<std::string> arguments{
      trainer_program_,
      "train",
      "--config=" + folder_ / "job.toml",
      "--save_dir=" + save_dir(name),
      fmt::format("--trainer_id={}", trainer),
      fmt::format("--metrics={}/{}-{}.jsonl", folder_.path(), name, trainer)};
  arguments.insert(arguments.end(), flags.begin(), flags.end());
  return arguments;
}

Process Job::start_local(const std::string& name, const std::vector<std::string>& flags) {
  std::vector<std::string> arguments = train_arguments(name, 0, flags);
  arguments.emplace_back("--local");
  arguments.emplace_back("--verbose");
  return {arguments, folder_ / (name + "-0.log")};
}

Process Job::start_pserver(const std::string& name, const Shape& shape, int id, int base_port,
                           const std::vector<std::string>& flags) {
  const int port = base_port + id * (shape.ports_num + shape.ports_num_for_sparse);
  std::vector<std::string> arguments{
      PADDLE_PROGRAM,
      "pserver",
      fmt::format("--port={}", port),
      fmt::format("--ports_num={}", shape.ports_num),
      fmt::format("--ports_num_for_sparse={}", shape.ports_num_for_sparse),
      fmt::format("--num_gradient_servers={}", shape.trainers),
      fmt::format("--pserver_id={}", id)};
  arguments.insert(arguments.end(), flags.begin(), flags.end());
  return {arguments, folder_ / fmt::format("{}-pserver-{}.log", name, id)};
}

Process Job::start_trainer(const std::string& name, const Shape& shape, int id, int base_port,
                           const std::vector<std::string>& flags,
                           const std::vector<std::string>& environment) {
  std::vector<std::string> arguments = train_arguments(name, id, flags);
  std::string pservers;
  std::string trainers;
  const int first_trainer = base_port + shape.pservers * shape.ports_of_pserver();
  const bool talk = shape.has_group() || shape.nodes > 0;
  for (int i = 0; i < shape.trainers && talk; ++i) {
    trainers += fmt::format("{}127.0.0.{}:{}", i == 0 ? "" : ",",
                            shape.nodes > 0 ? 1 + i % shape.nodes : 1, first_trainer + i);
  }
  if (talk) {
    arguments.insert(
        arguments.end() - static_cast<std::ptrdiff_t>(flags.size()),
        {"--trainers=" + trainers, shape.has_group() ? "--set=strategy.dense=\"collective\""
                                                     : "--set=strategy.node_groups=true"});
    if (shape.has_group() && shape.nodes > 0) {
      arguments.emplace_back("--set=strategy.node_groups=true");
    }
    if (shape.pservers == 0) arguments.emplace_back("--pservers=");
  }
  for (int i = 0; i < shape.pservers; ++i) {
    const int port = base_port + i * shape.ports_of_pserver();
    pservers += fmt::format("{}127.0.0.1:{}", i == 0 ? "" : ",", port);
  }
  if (!pservers.empty()) arguments.push_back("--pservers=" + pservers);
  arguments.push_back(fmt::format("--ports_num={}", shape.ports_num));
  arguments.push_back(fmt::format("--ports_num_for_sparse={}", shape.ports_num_for_sparse));
  arguments.push_back(fmt::format("--num_gradient_servers={}", shape.trainers));
  return {arguments, folder_ / fmt::format("{}-{}.log", name, id), environment};
}

Job::Running Job::start(const std::string& name, const Shape& shape,
                        const std::vector<std::string>& flags) {
  const int base_port = free_ports(shape.ports());
  Running all;
  for (int i = 0; i < shape.pservers; ++i) {
    all.pservers.push_back(start_pserver(name, shape, i, base_port));
  }
  for (const Process& pserver : all.pservers) {
    EXPECT_TRUE(pserver.prints("READY pserver ")) << pserver.output();
  }
  for (int i = 0; i < shape.trainers; ++i) {
    all.trainers.push_back(start_trainer(name, shape, i, base_port, flags));
  }
  return all;
}

bool Job::run(const std::string& name, const Shape& shape, const std::vector<std::string>& flags,
              std::chrono::seconds limit) {
  auto [pservers, trainers] = start(name, shape, flags);
  bool all_good = true;
  for (Process& trainer : trainers) {
    const auto code = trainer.wait(limit);
    all_good = all_good && code == 0;
    EXPECT_EQ(code, 0) << trainer.output();
  }
  for (Process& pserver : pservers) {
    const auto code = pserver.wait();
    all_good = all_good && code == 0;
    EXPECT_EQ(code, 0) << pserver.output();
  }
  return all_good;
}

bool Job::run_local(const std::string& name, const std::vector<std::string>& flags) {
  Process process = start_local(name, flags);
  const auto code = process.wait();
  EXPECT_EQ(code, 0) << process.output();
  return code == 0;
}

std::string Job::output(const std::string& name, int trainer) const {
  return TemporaryFolder::read(folder_ / fmt::format("{}-{}.log", name, trainer));
}

std::string Job::metrics(const std::string& name, int trainer) const {
  return TemporaryFolder::read(folder_ / fmt::format("{}-{}.jsonl", name, trainer));
}

std::map<std::string, std::string> Job::snapshot(const std::string& name, int pass) const {
  std::map<std::string, std::string> files;
  const std::string directory = fmt::format("{}/pass-{:05}", save_dir(name), pass);
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(directory, error)) {
    files[entry.path().filename().string()] = TemporaryFolder::read(entry.path());
  }
  EXPECT_TRUE(files.contains("MANIFEST")) << directory;
  return files;
}

std::map<std::string, std::string> Job::values(const std::string& name, int pass) const {
  auto files = snapshot(name, pass);
  for (const char* of_the_job : {"MANIFEST", "job.toml", "path.txt", "model"}) {
    files.erase(of_the_job);
  }
  EXPECT_FALSE(files.empty());
  return files;
}

}  // namespace paddle::test
