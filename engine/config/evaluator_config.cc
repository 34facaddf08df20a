#include <algorithm>
#include <array>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "engine/config/layer_keys.h"
#include "engine/config/sections.h"

namespace paddle::config {
namespace {

// Keys of metrics.jsonl that are not evaluators.
constexpr std::array<std::string_view, 11> kReservedNames{
    "kind",    "pass", "batch",     "samples",    "cost", "current_cost", "examples_per_second",
    "unix_ms", "path", "discarded", "bad_records"};

void check_named(TomlTable& table, std::string_view key, const std::string& word,
                 std::string_view what, const std::set<std::string>& known) {
  if (word.empty() || known.contains(word)) return;
  table.fail(key, fmt::format("'{}' is no {}", word, what),
             fmt::format("here one can use {}", fmt::join(known, ", ")));
}

}  // namespace

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
    const auto types = names_of(evaluator_types());
    evaluator.type = table.choice("type", types.front(), types);
    evaluator.name = table.string("name", evaluator.type);
    evaluator.inputs = {table.string("input")};
    evaluator.label = table.string("label");
    check_named(table, "input", evaluator.inputs[0], "layer", layers);
    check_named(table, "label", evaluator.label, "data slot", slots);
    for (const std::string_view key : find_type(evaluator_types(), evaluator.type)->required) {
      require(table, key, evaluator.name);
    }
    if (std::ranges::find(kReservedNames, evaluator.name) != kReservedNames.end()) {
      table.fail("name", fmt::format("'{}' means something else in metrics.jsonl", evaluator.name));
    }
    if (!taken.insert(evaluator.name).second) {
      table.fail("name", fmt::format("the name '{}' is already taken", evaluator.name),
                 "two evaluators of one type need names of their own");
    }
    if (evaluators.size() == kEvaluatorsMax) {
      table.fail("type", fmt::format("there are more than {} evaluators", kEvaluatorsMax));
    }
    evaluators.push_back(std::move(evaluator));
  }
  return evaluators;
}

}  // namespace paddle::config
