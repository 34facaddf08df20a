#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/fd.h"
#include "base/named_rows.h"
#include "base/safe_path.h"
#include "base/text.h"
#include "base/text_file.h"
#include "engine/config/layer_keys.h"
#include "engine/config/sections.h"

namespace paddle::config {
namespace {

constexpr std::int64_t kEntryCountMax = 60'000;  // engine/table/parameter_set.h
constexpr std::int64_t kExpirePassesMax = 30'000;
constexpr std::array<std::string_view, 2> kFullChoices{"error", "evict"};
constexpr std::array<std::string_view, 2> kUnseenChoices{"mean", "draw"};
constexpr std::int64_t kLayerSizeMax = 1 << 24;
constexpr std::int64_t kRowWidthMax = 1 << 20;   // engine/table/parameter_set.h
constexpr std::size_t kTableNameBytesMax = 200;  // there too
constexpr std::size_t kOwnTablesMax = 2048;      // there too
constexpr std::int64_t kConcatLengthMax = 1 << 16;
constexpr std::int64_t kNegativesMax = 1 << 16;
constexpr std::size_t kCountsBytesMax = 1U << 30U;
constexpr std::array<std::string_view, 2> kDistributions{"uniform", "unigram"};
constexpr std::array<std::string_view, 3> kPoolings{"sum", "mean", "concat"};

// Keys of metrics.jsonl, and of `paddle test --json`, that are not evaluators. "total_" begins the
// keys of the figures over all trainers, and "curve:" those of curves.
constexpr auto kReservedNames = std::to_array<std::string_view>({"kind",
                                                                 "pass",
                                                                 "batch",
                                                                 "samples",
                                                                 "cost",
                                                                 "current_cost",
                                                                 "first_cost",
                                                                 "pass_done",
                                                                 "passes",
                                                                 "path",
                                                                 "why",
                                                                 "discarded",
                                                                 "bad_records",
                                                                 "rows",
                                                                 "absent_rows",
                                                                 "dense_pushes",
                                                                 "dense_merged",
                                                                 "dense_lags",
                                                                 "sparse_pushes",
                                                                 "sparse_merged",
                                                                 "sparse_lags",
                                                                 "unix_ms",
                                                                 "examples_per_second",
                                                                 "examples_per_busy_second",
                                                                 "higher_is_better",
                                                                 "one_is_best"});

// Reads the last word of each line, a whole number; a dictionary with counts qualifies.
Result<std::vector<std::uint64_t>> read_counts(const std::string& path) {
  PADDLE_TRY(std::string bytes, read_file(path, kCountsBytesMax));
  const std::string text = text_of_lines(std::move(bytes));
  std::vector<std::uint64_t> counts;
  std::string_view left = text;
  while (!left.empty()) {
    const std::size_t end = std::min(left.find('\n'), left.size());
    std::string_view line = left.substr(0, end);
    left.remove_prefix(std::min(end + 1, left.size()));
    line = line.substr(0, line.find_last_not_of(" \t\r") + 1);
    const std::size_t space = line.find_last_of(" \t");
    const std::string_view word = line.substr(space == std::string_view::npos ? 0 : space + 1);
    const auto [at, error] =
        std::from_chars(word.data(), word.data() + word.size(), counts.emplace_back());
    if (error != std::errc() || at != word.data() + word.size()) {
      return Error{Errc::kUsage, fmt::format("{}:{}: the last word is not a whole number from 0",
                                             path, counts.size())};
    }
  }
  return counts;
}

void read_sampling(TomlTable& table, const std::string& folder, LayerConfig& layer) {
  layer.negatives = read_count(table, "negatives", 0, 1, kNegativesMax);
  layer.distribution = table.choice("distribution", "", kDistributions);
  const std::string path = table.string("counts");
  if (layer.distribution == "unigram") require(table, "counts", layer.name);
  if (path.empty()) return;
  auto counts = read_counts(in_folder(folder, path));
  if (counts) {
    layer.counts = *std::move(counts);
  } else {
    table.fail("counts", counts.error().message, "a template's ./prepare script makes it");
  }
}

// The defaults are the same as in Fluid's accessor.
void read_shrink(TomlTable table, wire::ShrinkPolicy& shrink) {
  require(table, "label", "shrink");
  shrink.set_label(table.string("label"));
  shrink.set_decay(read_float(table, "decay", 0.98F, 0, 1));
  shrink.set_threshold(read_float(table, "threshold", 0.8F));
  shrink.set_nonclick_coefficient(read_float(table, "nonclick_coefficient", 0.1F));
  shrink.set_click_coefficient(read_float(table, "click_coefficient", 1));
}

// Reads the rules by which a sparse table admits and drops rows.
void read_table_policy(TomlTable& table, ParameterAttributes& attributes) {
  wire::TablePolicy& policy = attributes.table;
  policy.set_entry_count(read_count(table, "entry_count", 0, 0, kEntryCountMax));
  policy.set_entry_probability(read_float(table, "entry_probability", 0, 0, 1));
  policy.set_expire_passes(read_count(table, "expire_passes", 0, 0, kExpirePassesMax));
  policy.set_bytes_max(static_cast<std::uint64_t>(table.integer("bytes_max", 0)));
  policy.set_draws_unseen(table.choice("unseen", "mean", kUnseenChoices) == "draw");
  policy.set_evict(table.choice("on_full", "error", kFullChoices) == "evict");
  if (policy.evict() && policy.bytes_max() == 0) {
    table.fail("on_full", "on_full = \"evict\" needs bytes_max");
  }
  for (TomlTable& one : table.tables("entry")) {
    require(one, "slot", "the entry");
    wire::SlotEntry& entry = *policy.add_entry();
    entry.set_slot(one.string("slot"));
    entry.set_entry_count(read_count(one, "entry_count", policy.entry_count(), 0, kEntryCountMax));
    entry.set_entry_probability(
        read_float(one, "entry_probability", policy.entry_probability(), 0, 1));
  }
  if (table.has("shrink")) read_shrink(table.table("shrink"), *policy.mutable_shrink());
  for (const std::string_view key : {"entry_count", "entry_probability", "expire_passes",
                                     "bytes_max", "on_full", "entry", "shrink", "unseen"}) {
    if (table.has(key) && !attributes.sparse) {
      table.fail(key, fmt::format("'{}' is for sparse tables", key), "add sparse = true");
    }
  }
}

// Reads the keys that the parameters of layers and [[table]] have in common.
void read_update(TomlTable& table, ParameterAttributes& attributes) {
  attributes.initial_mean = read_float(table, "initial_mean", 0, -kFloatMax);
  attributes.initial_std = read_float(table, "initial_std", -1);
  attributes.learning_rate = read_float(table, "learning_rate", 1);
  attributes.l1 = read_optional_float(table, "l1");
  attributes.l2 = read_optional_float(table, "l2");
  attributes.clip_value = read_optional_float(table, "clip_value");
  attributes.clip_norm = read_optional_float(table, "clip_norm");
  attributes.is_static = table.boolean("static", false);
}

ParameterAttributes read_attributes(TomlTable table) {
  ParameterAttributes attributes;
  attributes.name = table.string("name");
  read_update(table, attributes);
  attributes.sparse = table.boolean("sparse", false);
  read_table_policy(table, attributes);
  if (attributes.name.find_first_of("/\n") != std::string::npos || attributes.name == "." ||
      attributes.name == "..") {
    table.fail("name", "a parameter's name is the name of its file, without '/'");
  }
  return attributes;
}

TableConfig read_own_table(TomlTable& table) {
  TableConfig own;
  own.location = table.location();
  for (const char* key : {"name", "width"}) require(table, key, "the table");
  own.name = table.string("name");
  own.width = static_cast<std::uint64_t>(table.integer("width", 0, 1, kRowWidthMax));
  read_update(table, own.weight);
  own.weight.sparse = true;
  // These keys need what layers know of an example: the slot of an id, and a label.
  for (const std::string_view key : {"entry", "shrink"}) {
    if (!table.has(key)) continue;
    table.fail(key,
               fmt::format("'{}' is for embeddings of [[layer]], which know the slot and the "
                           "label of an id",
                           key),
               "remove it; entry_count, expire_passes and bytes_max limit a table without them");
  }
  read_table_policy(table, own.weight);
  if (table.has("sparse")) {
    table.fail("sparse", "a [[table]] is always sparse", "remove the key");
  }
  const bool is_file_name = own.name.find('/') == std::string::npos &&
                            own.name.size() <= kTableNameBytesMax && SafePath::parse(own.name) &&
                            escape_control(own.name) == own.name;
  if (table.is_string("name") && !is_file_name) {
    table.fail("name", fmt::format("the name '{}' cannot be a file name", escape_control(own.name)),
               fmt::format("snapshots have a file of this name: up to {} characters without '/'",
                           kTableNameBytesMax));
  }
  return own;
}

// Reads a number of outputs; "dictionary" stands for the number of its words.
std::uint64_t read_size(TomlTable& table, std::string_view key, const DataConfig& data) {
  if (!table.is_string(key)) {
    return static_cast<std::uint64_t>(table.integer(key, 0, 1, kLayerSizeMax));
  }
  if (table.string(key) != "dictionary") {
    table.fail(key, fmt::format("'{}' must be an integer or \"dictionary\"", key));
  }
  return data.dictionary_size;
}

LayerConfig read_layer(TomlTable& table, const DataConfig& data, const std::string& folder) {
  LayerConfig layer;
  layer.location = table.location();
  require(table, "name", "the layer");
  require(table, "type", "the layer");
  require(table, "input", "the layer");
  layer.name = table.string("name");
  layer.type = table.choice("type", "fc", row_names(layer_types()));
  const TypeKeys& type = *find_row(layer_types(), layer.type);
  layer.inputs = table.strings("input");
  layer.size = read_size(table, "size", data);
  layer.vocabulary = read_size(table, "vocabulary", data);
  layer.activation = table.choice("activation", "", kActivations);
  layer.pooling = table.choice("pooling", "", kPoolings);
  layer.length = read_count(table, "length", 0, 1, kConcatLengthMax);
  if (table.has("padding_id")) {
    // Ids of 2^63 and more are written as negative numbers.
    layer.padding_id = static_cast<std::uint64_t>(
        table.integer("padding_id", 0, std::numeric_limits<std::int64_t>::lowest()));
  }
  layer.rank = read_count(table, "rank", 0, 1, kLayerSizeMax);
  layer.epsilon = read_float(table, "epsilon", 0, 0, 1);
  layer.scale = static_cast<float>(table.number("scale", 0));
  layer.rate = static_cast<float>(table.number("rate", 0, 0, 0.99));
  layer.has_bias = table.boolean("bias", type.has_bias);
  layer.label = table.string("label");
  read_sampling(table, folder, layer);
  layer.weight = read_attributes(table.table("weight"));
  layer.bias = read_attributes(table.table("bias_attributes"));
  for (const std::string_view key : type.required) require(table, key, layer.name);
  if (layer.inputs.empty() && table.has("input")) table.fail("input", "'input' is empty");
  return layer;
}

// The ids of buckets and labels are known before the data is read: a table has a row for each.
void check_vocabulary(TomlTable& table, const DataConfig& data, const LayerConfig& layer) {
  if (layer.type != "embedding" || layer.vocabulary == 0) return;
  for (const SlotConfig& slot : data_slots(data)) {
    if (std::ranges::find(layer.inputs, slot.name) == layer.inputs.end()) continue;
    std::uint64_t ids = slot.labels.size();
    std::string why = fmt::format("{} labels", ids);
    const auto declared = std::ranges::find(data.slots, slot.name, &DataSlotConfig::name);
    if (declared != data.slots.end() && declared->is_bucketed()) {
      ids = std::uint64_t{declared->width} * declared->buckets();
      why = fmt::format("{} ids: {} column{} of {} buckets", ids, declared->width,
                        declared->width == 1 ? "" : "s", declared->buckets());
    }
    if (ids <= layer.vocabulary) continue;
    table.fail(
        "vocabulary",
        fmt::format("the vocabulary is {}, but slot '{}' has {}", layer.vocabulary, slot.name, why),
        fmt::format("set vocabulary = {}", ids));
  }
}

void check_known(TomlTable& table, std::string_view key, const std::string& word,
                 const std::set<std::string>& known, std::string_view otherwise) {
  if (word.empty() || known.contains(word)) return;
  table.fail(key, fmt::format("'{}' is {}", word, otherwise),
             "use one of " + listed(std::vector<std::string_view>(known.begin(), known.end())));
}

}  // namespace

std::vector<LayerConfig> read_layers(TomlTable& root, const DataConfig& data,
                                     const std::string& folder) {
  std::vector<LayerConfig> layers;
  std::set<std::string> known;
  for (const SlotConfig& slot : data_slots(data)) known.insert(slot.name);
  bool has_cost = false;
  for (TomlTable& table : root.tables("layer")) {
    LayerConfig layer = read_layer(table, data, folder);
    constexpr std::string_view kOtherwise = "neither a data slot nor an earlier layer";
    const auto unknown = std::ranges::find_if(layer.inputs, [&](const std::string& input) {
      return !input.empty() && !known.contains(input);
    });
    if (unknown != layer.inputs.end()) check_known(table, "input", *unknown, known, kOtherwise);
    check_known(table, "label", layer.label, known, kOtherwise);
    check_vocabulary(table, data, layer);
    if (!layer.name.empty() && !known.insert(layer.name).second) {
      table.fail("name", fmt::format("the name '{}' is already taken", layer.name));
    }
    has_cost = has_cost || find_row(layer_types(), layer.type)->reads("label");
    layers.push_back(std::move(layer));
  }
  if (!has_cost) {
    root.fail("layer", "no layer computes a cost", "add one of type = \"softmax_cross_entropy\"");
  }
  return layers;
}

std::vector<TableConfig> read_own_tables(TomlTable& root) {
  std::vector<TableConfig> tables;
  std::set<std::string> taken;
  for (TomlTable& table : root.tables("table", kOwnTablesMax)) {
    tables.push_back(read_own_table(table));
    const std::string& name = tables.back().name;
    if (!name.empty() && !taken.insert(name).second) {
      table.fail("name", fmt::format("the name '{}' is already taken", name));
    }
  }
  return tables;
}

std::vector<LayerConfig> read_evaluators(TomlTable& root, const JobConfig& job) {
  std::set<std::string> layers;
  std::set<std::string> slots;
  for (const LayerConfig& layer : job.layers) layers.insert(layer.name);
  for (const SlotConfig& slot : data_slots(job.data)) slots.insert(slot.name);
  std::vector<LayerConfig> evaluators;
  std::set<std::string> taken;
  for (TomlTable& table : root.tables("evaluator")) {
    LayerConfig evaluator;
    evaluator.location = table.location();
    require(table, "type", "the evaluator");
    require(table, "input", "the evaluator");
    const auto types = row_names(evaluator_types());
    evaluator.type = table.choice("type", types.front(), types);
    evaluator.name = table.string("name", evaluator.type);
    evaluator.inputs = {table.string("input")};
    evaluator.label = table.string("label");
    evaluator.group = table.string("group");
    check_known(table, "input", evaluator.inputs[0], layers, "not a layer");
    check_known(table, "label", evaluator.label, slots, "not a data slot");
    check_known(table, "group", evaluator.group, slots, "not a data slot");
    const TypeKeys& type = *find_row(evaluator_types(), evaluator.type);
    for (const std::string_view key : type.required) require(table, key, evaluator.name);
    if (table.has("group") && !type.reads("group")) {
      table.fail("group", "'group' is for evaluators of type gauc");
    }
    if (std::ranges::find(kReservedNames, evaluator.name) != kReservedNames.end() ||
        evaluator.name.starts_with("total_") || evaluator.name.starts_with("curve:")) {
      table.fail("name", fmt::format("the name '{}' is reserved in metrics.jsonl", evaluator.name));
    }
    if (!taken.insert(evaluator.name).second) {
      table.fail("name", fmt::format("the name '{}' is already taken", evaluator.name),
                 "give two evaluators of one type different names");
    }
    if (evaluators.size() == kEvaluatorsMax) {
      table.fail("type", fmt::format("there are more than {} evaluators", kEvaluatorsMax));
    }
    evaluators.push_back(std::move(evaluator));
  }
  return evaluators;
}

}  // namespace paddle::config
