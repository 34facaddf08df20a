#include "engine/config/job_config.h"

#include <algorithm>
#include <array>
#include <set>

#include <fmt/format.h>

#include "engine/base/fd.h"
#include "engine/config/toml_reader.h"

namespace paddle::config {
namespace {

constexpr std::size_t kDictionaryBytesMax = 1U << 30U;
constexpr std::int64_t kLayerSizeMax = 1 << 24;
constexpr std::int64_t kNgramMax = 64;
constexpr std::int64_t kCountMax = 1 << 30;

constexpr std::array<std::string_view, 2> kFormats{"ngram", "bow"};
constexpr std::array<std::string_view, 5> kLayerTypes{"embedding", "fc", "concat", "dropout",
                                                      "softmax_cross_entropy"};
constexpr std::array<std::string_view, 4> kActivations{"identity", "sigmoid", "relu", "tanh"};
constexpr std::array<std::string_view, 2> kPoolings{"sum", "mean"};
constexpr std::array<std::string_view, 4> kMethods{"sgd", "momentum", "adagrad", "adam"};
constexpr std::array<std::string_view, 2> kStrategies{"sync", "async"};

std::uint32_t count(TomlTable& table, std::string_view key, std::uint32_t otherwise,
                    std::int64_t min = 0, std::int64_t max = kCountMax) {
  return static_cast<std::uint32_t>(table.integer(key, otherwise, min, max));
}

void require(TomlTable& table, std::string_view key, std::string_view where) {
  if (!table.has(key)) table.fail(key, fmt::format("{} has no '{}'", where, key));
}

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash);
}

Result<std::uint64_t> count_lines(const std::string& path) {
  auto text = read_file(path, kDictionaryBytesMax);
  if (!text) return std::move(text).error();
  const auto ends = std::ranges::count(*text, '\n');
  const bool open_end = !text->empty() && text->back() != '\n';
  return static_cast<std::uint64_t>(ends) + (open_end ? 1 : 0);
}

DataConfig read_data(TomlTable data, const std::string& folder) {
  DataConfig config;
  require(data, "train", "[data]");
  require(data, "format", "[data]");
  require(data, "dictionary", "[data]");
  config.train = data.string("train");
  config.test = data.string("test");
  config.format = data.choice("format", "ngram", kFormats);
  config.dictionary = data.string("dictionary");
  config.ngram = count(data, "ngram", config.ngram, 2, kNgramMax);
  if (config.dictionary.empty()) return config;
  const std::string path =
      config.dictionary.starts_with('/') ? config.dictionary : folder + "/" + config.dictionary;
  const auto lines = count_lines(path);
  if (!lines) {
    data.fail("dictionary", lines.error().message, "a template's ./prepare script makes it");
  } else if (*lines == 0) {
    data.fail("dictionary", fmt::format("{} is empty", path), "its last line must be <unk>");
  } else {
    config.dictionary_size = *lines;
  }
  return config;
}

ParameterAttributes read_attributes(TomlTable table) {
  ParameterAttributes attributes;
  attributes.name = table.string("name");
  attributes.initial_mean = static_cast<float>(table.number("initial_mean", 0));
  attributes.initial_std = static_cast<float>(table.number("initial_std", -1, 0));
  attributes.learning_rate = static_cast<float>(table.number("learning_rate", 1, 0));
  attributes.l2 = static_cast<float>(table.number("l2", -1, 0));
  attributes.sparse = table.boolean("sparse", false);
  attributes.is_static = table.boolean("static", false);
  if (attributes.name.find_first_of("/\n") != std::string::npos || attributes.name == "." ||
      attributes.name == "..") {
    table.fail("name", "a parameter's name is the name of its file, without '/'");
  }
  return attributes;
}

// A number of outputs, or "dictionary" for one per word of it.
std::uint64_t read_size(TomlTable& table, std::string_view key, const DataConfig& data) {
  if (!table.is_string(key)) {
    return static_cast<std::uint64_t>(table.integer(key, 0, 1, kLayerSizeMax));
  }
  if (table.string(key) != "dictionary") {
    table.fail(key, fmt::format("'{}' must be an integer or \"dictionary\"", key));
  }
  return data.dictionary_size;
}

LayerConfig read_layer(TomlTable& table, const DataConfig& data) {
  LayerConfig layer;
  require(table, "name", "the layer");
  require(table, "type", "the layer");
  require(table, "input", "the layer");
  layer.name = table.string("name");
  layer.type = table.choice("type", "fc", kLayerTypes);
  layer.inputs = table.strings("input");
  layer.size = read_size(table, "size", data);
  layer.vocabulary = read_size(table, "vocabulary", data);
  layer.activation = table.choice("activation", "", kActivations);
  layer.pooling = table.choice("pooling", "", kPoolings);
  layer.rate = static_cast<float>(table.number("rate", 0, 0, 0.99));
  layer.has_bias = table.boolean("bias", layer.type == "fc");
  layer.label = table.string("label");
  layer.weight = read_attributes(table.table("weight"));
  layer.bias = read_attributes(table.table("bias_attributes"));
  if ((layer.type == "fc" || layer.type == "embedding")) require(table, "size", layer.name);
  if (layer.type == "softmax_cross_entropy") require(table, "label", layer.name);
  if (layer.inputs.empty() && table.has("input")) table.fail("input", "'input' is empty");
  return layer;
}

// What a format offers to the layers (dataset.h).
std::vector<std::string> data_slots(const DataConfig& data) {
  if (data.format == "bow") return {"words", "label"};
  std::vector<std::string> slots;
  for (std::uint32_t i = 0; i + 1 < data.ngram; ++i) slots.push_back(fmt::format("word{}", i));
  slots.emplace_back("next");
  return slots;
}

void check_known(TomlTable& table, std::string_view key, const std::string& word,
                 const std::set<std::string>& known) {
  if (word.empty() || known.contains(word)) return;
  table.fail(key, fmt::format("'{}' is neither a data slot nor an earlier layer", word),
             fmt::format("here one can use {}", fmt::join(known, ", ")));
}

std::vector<LayerConfig> read_layers(TomlTable& root, const DataConfig& data) {
  std::vector<LayerConfig> layers;
  const std::vector<std::string> slots = data_slots(data);
  std::set<std::string> known(slots.begin(), slots.end());
  bool has_cost = false;
  for (TomlTable& table : root.tables("layer")) {
    LayerConfig layer = read_layer(table, data);
    for (const std::string& input : layer.inputs) check_known(table, "input", input, known);
    check_known(table, "label", layer.label, known);
    if (!layer.name.empty() && !known.insert(layer.name).second) {
      table.fail("name", fmt::format("the name '{}' is already taken", layer.name));
    }
    has_cost = has_cost || layer.type == "softmax_cross_entropy";
    layers.push_back(std::move(layer));
  }
  if (!has_cost) {
    root.fail("layer", "no layer computes a cost", "add one of type = \"softmax_cross_entropy\"");
  }
  return layers;
}

void read_optimizer(TomlTable table, JobConfig& job) {
  const std::string method = table.choice("method", "sgd", kMethods);
  job.optimizer.set_method(method);
  job.optimizer.set_learning_rate(static_cast<float>(table.number("learning_rate", 0.01, 0)));
  job.optimizer.set_momentum(static_cast<float>(table.number("momentum", 0, 0, 1)));
  job.optimizer.set_beta1(static_cast<float>(table.number("beta1", 0.9, 0, 1)));
  job.optimizer.set_beta2(static_cast<float>(table.number("beta2", 0.999, 0, 1)));
  const double epsilon = method == "adagrad" ? 1e-6 : 1e-8;
  job.optimizer.set_epsilon(static_cast<float>(table.number("epsilon", epsilon, 0)));
  job.l2 = static_cast<float>(table.number("l2", 0, 0));
}

void read_strategy(TomlTable table, JobConfig& job) {
  const auto strategy = [&table](std::string_view key) {
    return table.choice(key, "sync", kStrategies) == "async" ? wire::STRATEGY_ASYNC
                                                             : wire::STRATEGY_SYNC;
  };
  job.dense_strategy = strategy("dense");
  job.sparse_strategy = strategy("sparse");
  job.async_lagged_grad_discard_ratio = static_cast<float>(
      table.number("async_lagged_grad_discard_ratio", job.async_lagged_grad_discard_ratio, 1));
  job.min_block_size = static_cast<std::uint64_t>(
      table.integer("min_block_size", static_cast<std::int64_t>(job.min_block_size), 1, kCountMax));
}

TrainConfig read_train(TomlTable table) {
  TrainConfig train;
  train.passes = count(table, "passes", train.passes, 1);
  train.batch_size = count(table, "batch_size", train.batch_size, 1, 1 << 20);
  train.trainer_count = count(table, "trainer_count", train.trainer_count, 1, 1024);
  train.log_period = count(table, "log_period", train.log_period, 1);
  train.test_period = count(table, "test_period", train.test_period);
  train.saving_period = count(table, "saving_period", train.saving_period);
  train.shuffle_records = static_cast<std::uint64_t>(table.integer(
      "shuffle_records", static_cast<std::int64_t>(train.shuffle_records), 0, kCountMax));
  return train;
}

}  // namespace

Result<JobConfig> read_job(const std::string& path, const std::vector<std::string>& overrides) {
  PADDLE_TRY(TomlTable root, TomlTable::read(path, overrides));
  JobConfig job;
  job.name = root.string("name", "job");
  job.seed = static_cast<std::uint64_t>(root.integer("seed", 1));
  job.data = read_data(root.table("data"), folder_of(path));
  job.layers = read_layers(root, job.data);
  read_optimizer(root.table("optimizer"), job);
  read_strategy(root.table("strategy"), job);
  job.train = read_train(root.table("train"));
  PADDLE_TRY_STATUS(root.finish());
  return job;
}

}  // namespace paddle::config
