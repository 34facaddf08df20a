#include "engine/data/record_rules.h"

#include <algorithm>

#include <fmt/format.h>

namespace paddle::data {
namespace {

// Whether ids of the slot are places in the dictionary, which are all below its size.
bool are_of_dictionary(const config::DataConfig& data, const std::string& slot) {
  return data.format == "ngram" || (data.format == "bow" && slot == "words");
}

std::string count_of(const nn::SlotRule& rule) {
  return rule.below == 2 ? "neither 0 nor 1"
                         : fmt::format("not below the {} classes, which count from 0", rule.below);
}

}  // namespace

RecordRules::RecordRules(const config::DataConfig& data, std::span<const nn::SlotRule> rules)
    : labels_key_(data.slots.empty() ? "[data] labels" : "the key 'labels' of the slot") {
  for (config::SlotConfig& slot : config::data_slots(data)) slots_.push_back({std::move(slot), {}});
  for (const nn::SlotRule& rule : rules) {
    const bool is_kept =
        are_of_dictionary(data, rule.slot_name) && rule.below >= data.dictionary_size;
    const bool is_single = rule.is_single && slots_[rule.slot].config.many;
    const bool is_of_floats = rule.is_binary || rule.is_weight;
    if (!is_single && !is_of_floats && (rule.below == 0 || is_kept)) continue;
    // An evaluator has the same condition as the cost that reads the same label.
    const auto is_same = [&](const nn::SlotRule& other) {
      return other.is_single == rule.is_single && other.below == rule.below &&
             other.except == rule.except && other.is_binary == rule.is_binary &&
             other.is_weight == rule.is_weight;
    };
    std::vector<nn::SlotRule>& known = slots_[rule.slot].rules;
    if (std::ranges::none_of(known, is_same)) known.push_back(rule);
    last_ = std::max(last_, rule.slot + 1);
  }
}

Status RecordRules::check(const RecordView& record) const {
  RecordView rest = record;
  for (const Slot& slot : std::span(slots_).first(last_)) {
    std::span<const std::uint64_t> ids;
    std::span<const float> values;
    if (slot.config.width > 0) {
      values = take_front(rest.values, slot.config.width);
    } else {
      const std::size_t count = slot.config.many ? take_front(rest.counts, 1).front() : 1;
      ids = take_front(rest.ids, count);
      if (slot.config.weighted) take_front(rest.values, count);
    }
    for (const nn::SlotRule& rule : slot.rules) PADDLE_TRY_STATUS(check(rule, ids, values));
  }
  return {};
}

Status RecordRules::check(const nn::SlotRule& rule, std::span<const std::uint64_t> ids,
                          std::span<const float> values) const {
  if (rule.is_single && ids.size() != 1) {
    return Error{Errc::kData, fmt::format("{}: slot '{}' has {} ids, but only one is read",
                                          rule.subject, rule.slot_name, ids.size())};
  }
  if (rule.is_binary) {
    const auto wrong = std::ranges::find_if(values, [](float one) { return one != 0 && one != 1; });
    if (wrong == values.end()) return {};
    return Error{Errc::kData, fmt::format("{}: label {} in slot '{}' is neither 0 nor 1",
                                          rule.subject, *wrong, rule.slot_name)};
  }
  if (rule.is_weight) {
    const auto wrong = std::ranges::find_if(values, [](float one) { return !(one >= 0); });
    if (wrong == values.end()) return {};
    return Error{Errc::kData, fmt::format("{}: weight {} in slot '{}' is below 0", rule.subject,
                                          *wrong, rule.slot_name)};
  }
  if (rule.below == 0) return {};
  const auto wrong = std::ranges::find_if(
      ids, [&](std::uint64_t id) { return id >= rule.below && id != rule.except; });
  if (wrong == ids.end()) return {};
  if (!rule.is_label) {
    return Error{Errc::kData,
                 fmt::format("{}: id {} in slot '{}' is not below the vocabulary of {}",
                             rule.subject, *wrong, rule.slot_name, rule.below)};
  }
  return Error{
      Errc::kData,
      fmt::format("{}: label {} in slot '{}' is {}", rule.subject, *wrong, rule.slot_name,
                  count_of(rule)),
      fmt::format("list labels that do not count from 0 in {}, in their order: labels = [1, 2, 3]",
                  labels_key_)};
}

}  // namespace paddle::data
