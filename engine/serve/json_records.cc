#include "engine/serve/json_records.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/text.h"

namespace paddle::serve {
namespace {

using data::JsonValue;

// The texts of this slot are hashed by the job's format.
bool is_hashed(const config::DataConfig& data, const std::string& slot) {
  if (data.format == "criteo") return slot.starts_with('C');
  const auto found = std::ranges::find(data.slots, slot, &config::DataSlotConfig::name);
  return found != data.slots.end() && found->is_hashed();
}

std::vector<std::string> slot_names(const config::DataConfig& data) {
  std::vector<std::string> names;
  for (const config::SlotConfig& slot : config::data_slots(data)) names.push_back(slot.name);
  return names;
}

Error wrong(const std::string& slot, std::string_view expected) {
  return {Errc::kData, fmt::format("'{}' must be {}", slot, expected)};
}

}  // namespace

JsonRecords::JsonRecords(const config::JobConfig& job, const data::Dictionary& dictionary)
    : is_of_words_(!job.data.dictionary.empty()),
      index_buckets_(job.data.format == "libsvm" ? job.data.buckets : 0),
      dictionary_(dictionary),
      reader_(slot_names(job.data)) {
  for (const config::SlotConfig& config : config::data_slots(job.data)) {
    Slot slot{.config = config};
    slot.is_read = std::ranges::any_of(job.layers, [&](const config::LayerConfig& layer) {
      return std::ranges::find(layer.inputs, config.name) != layer.inputs.end();
    });
    slot.classes = data::ClassNames(config.labels);
    if (is_hashed(job.data, config.name)) slot.hash.emplace(config.name, job.data.buckets);
    slots_.push_back(std::move(slot));
  }
}

Status JsonRecords::parse(std::string_view line, data::RecordBlock& block) {
  Status parsed = reader_.read(line);
  if (parsed) parsed = add_record(block);
  reader_.trim();
  return parsed;
}

Status JsonRecords::add_record(data::RecordBlock& block) const {
  const data::RecordBlock::Extent begin = block.end();
  for (std::size_t i = 0; i < slots_.size(); ++i)
    PADDLE_TRY_STATUS(add_slot(slots_[i], reader_.find(i), block));
  if (const auto& unknown = reader_.unknown()) {
    return Error{Errc::kData, fmt::format("there is no slot '{}'", escape_control(*unknown)),
                 fmt::format("slots are {}", fmt::join(reader_.keys(), ", "))};
  }
  block.add_record(begin);
  return {};
}

Status JsonRecords::add_slot(const Slot& slot, const JsonValue* value,
                             data::RecordBlock& block) const {
  if (value == nullptr && slot.is_read)
    return Error{Errc::kData, fmt::format("'{}' is missing", slot.config.name)};
  if (const std::uint32_t width = slot.config.width; width > 0) {
    if (value != nullptr) return data::append_json_floats(slot.config.name, *value, width, block);
    block.values.insert(block.values.end(), width, 0);
    return {};
  }
  if (slot.config.many) return add_ids(slot, value, block);
  if (value != nullptr) return add_id(slot, *value, block);
  block.ids.push_back(0);
  return {};
}

// Nothing, null and {} are an empty list too.
Status JsonRecords::add_ids(const Slot& slot, const JsonValue* value,
                            data::RecordBlock& block) const {
  const bool is_list = value != nullptr && value->is_list();
  const std::size_t count = is_list ? value->size() : 0;
  if (!is_list && value != nullptr && !value->is_null() &&
      (!value->is_object() || value->size() > 0))
    return wrong(slot.config.name, "a list");
  const JsonValue* each = is_list ? value->items() : nullptr;
  for (std::size_t i = 0; i < count; ++i, each = each->next()) {
    if (!slot.config.weighted) {
      PADDLE_TRY_STATUS(add_id(slot, *each, block));
      continue;
    }
    if (!each->is_list() || each->size() != 2 || !each->items()->next()->is_number())
      return wrong(slot.config.name, "a list of [id, value]");
    PADDLE_TRY_STATUS(add_id(slot, *each->items(), block));
    block.values.push_back(each->items()->next()->number());
    if (!std::isfinite(block.values.back())) return wrong(slot.config.name, "of finite values");
  }
  block.counts.push_back(static_cast<std::uint32_t>(count));
  return {};
}

Status JsonRecords::add_id(const Slot& slot, const JsonValue& value,
                           data::RecordBlock& block) const {
  if (!slot.classes.empty() && (value.is_text() || value.is_number() || value.is_bool())) {
    const std::string other = value.is_text() ? "" : value.shown();
    return slot.classes.parse(value.is_text() ? value.text() : other,
                              fmt::format("'{}':", slot.config.name), block.ids.emplace_back());
  }
  if (const auto id = value.whole()) {
    block.ids.push_back(index_buckets_ > 0 && slot.config.weighted ? *id % index_buckets_ : *id);
    return {};
  }
  if (value.is_text() && slot.hash) {
    block.ids.push_back((*slot.hash)(value.text()));
    return {};
  }
  if (value.is_text() && is_of_words_) {
    block.ids.push_back(dictionary_.id(value.text()));
    return {};
  }
  return wrong(slot.config.name, slot.hash      ? "a text, or an id"
                                 : is_of_words_ ? "a word, or an id"
                                                : "a whole number from 0");
}

}  // namespace paddle::serve
