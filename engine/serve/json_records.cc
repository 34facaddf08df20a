#include "engine/serve/json_records.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "engine/data/records/json_object.h"

namespace paddle::serve {
namespace {

using nlohmann::json;

// The texts of this slot are hashed by the job's format.
bool is_hashed(const config::DataConfig& data, const std::string& slot) {
  if (data.format == "criteo") return slot.starts_with('C');
  const auto found = std::ranges::find(data.slots, slot, &config::DataSlotConfig::name);
  return found != data.slots.end() && found->is_hashed();
}

Error wrong(const std::string& slot, std::string_view expected) {
  return {Errc::kData, fmt::format("'{}' must be {}", slot, expected)};
}

}  // namespace

JsonRecords::JsonRecords(const config::JobConfig& job, const data::Dictionary& dictionary)
    : is_of_words_(!job.data.dictionary.empty()),
      index_buckets_(job.data.format == "libsvm" ? job.data.buckets : 0),
      dictionary_(dictionary) {
  for (const config::SlotConfig& config : config::data_slots(job.data)) {
    Slot slot{.config = config};
    slot.is_read = std::ranges::any_of(job.layers, [&](const config::LayerConfig& layer) {
      return std::ranges::find(layer.inputs, config.name) != layer.inputs.end();
    });
    if (is_hashed(job.data, config.name)) slot.hash.emplace(config.name, job.data.buckets);
    slots_.push_back(std::move(slot));
  }
}

Status JsonRecords::parse(std::string_view line, data::RecordBlock& block) const {
  PADDLE_TRY(const json record, data::parse_json_object(line));
  const data::RecordBlock::Extent begin = block.end();
  std::size_t known = 0;
  for (const Slot& slot : slots_) {
    const auto found = record.find(slot.config.name);
    if (found != record.end()) ++known;
    PADDLE_TRY_STATUS(add_slot(slot, found == record.end() ? nullptr : &*found, block));
  }
  if (known == record.size()) {
    block.add_record(begin);
    return {};
  }
  std::vector<std::string_view> names;
  for (const Slot& slot : slots_) names.push_back(slot.config.name);
  for (const auto& [key, value] : record.items()) {
    if (std::ranges::find(names, key) != names.end()) continue;
    return Error{Errc::kData, fmt::format("there is no slot '{}'", escape_control(key)),
                 fmt::format("slots are {}", fmt::join(names, ", "))};
  }
  return {};
}

Status JsonRecords::add_slot(const Slot& slot, const json* value, data::RecordBlock& block) const {
  if (value == nullptr && slot.is_read)
    return Error{Errc::kData, fmt::format("'{}' is missing", slot.config.name)};
  if (const std::uint32_t width = slot.config.width; width > 0) {
    if (value != nullptr) return data::append_json_floats(slot.config.name, *value, width, block);
    block.values.insert(block.values.end(), width, 0);
    return {};
  }
  if (!slot.config.many) {
    if (value != nullptr) return add_id(slot, *value, block);
    block.ids.push_back(0);
    return {};
  }
  const std::size_t count = value == nullptr ? 0 : value->size();
  if (count > 0 && !value->is_array()) return wrong(slot.config.name, "a list");
  for (std::size_t i = 0; i < count; ++i) {
    const json& each = (*value)[i];
    if (!slot.config.weighted) {
      PADDLE_TRY_STATUS(add_id(slot, each, block));
      continue;
    }
    if (!each.is_array() || each.size() != 2 || !each[1].is_number())
      return wrong(slot.config.name, "a list of [id, value]");
    PADDLE_TRY_STATUS(add_id(slot, each[0], block));
    block.values.push_back(each[1].get<float>());
    if (!std::isfinite(block.values.back())) return wrong(slot.config.name, "of finite values");
  }
  block.counts.push_back(static_cast<std::uint32_t>(count));
  return {};
}

Status JsonRecords::add_id(const Slot& slot, const json& value, data::RecordBlock& block) const {
  if (value.is_number_unsigned()) {
    const auto id = value.get<std::uint64_t>();
    block.ids.push_back(index_buckets_ > 0 && slot.config.weighted ? id % index_buckets_ : id);
    return {};
  }
  if (value.is_string() && slot.hash) {
    block.ids.push_back((*slot.hash)(value.get_ref<const std::string&>()));
    return {};
  }
  if (value.is_string() && is_of_words_) {
    block.ids.push_back(dictionary_.id(value.get_ref<const std::string&>()));
    return {};
  }
  return wrong(slot.config.name, slot.hash      ? "a text, or an id"
                                 : is_of_words_ ? "a word, or an id"
                                                : "a whole number from 0");
}

}  // namespace paddle::serve
