#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "engine/data/records/fields.h"
#include "engine/data/records/format.h"
#include "engine/data/records/json_object.h"

namespace paddle::data {
namespace {

using config::SlotType;
using nlohmann::json;

// JSON Lines: an object a line, whose keys are slots; others are ignored. What is missing or null
// is 0, an empty text or an empty list, as an empty field of csv is.
class JsonLines final : public Format {
 public:
  explicit JsonLines(const config::DataConfig& data) : data_(data) {
    for (const config::DataSlotConfig& slot : data.slots) {
      hashes_.emplace_back(slot.name, data.buckets);
    }
  }

  Status parse(std::string_view line, RecordBlock& block) override {
    if (line.empty()) return {};
    PADDLE_TRY(const json record, parse_json_object(line));
    const RecordBlock::Extent begin = block.end();
    for (std::size_t i = 0; i < data_.slots.size(); ++i) {
      const auto found = record.find(data_.slots[i].name);
      PADDLE_TRY_STATUS(parse_slot(i, found == record.end() ? nothing_ : *found, block));
    }
    block.add_record(begin);
    return {};
  }

 private:
  Status parse_slot(std::size_t index, const json& value, RecordBlock& block) {
    const config::DataSlotConfig& slot = data_.slots[index];
    if (slot.type == SlotType::kFloat) return parse_floats(slot, value, block);
    if (!slot.has_many_ids()) return parse_id(index, value, block);
    if (!value.is_array() && !value.is_null()) return wrong(slot, "a list");
    for (const json& one : value) PADDLE_TRY_STATUS(parse_id(index, one, block));
    block.counts.push_back(static_cast<std::uint32_t>(value.size()));
    return {};
  }

  static Status parse_floats(const config::DataSlotConfig& slot, const json& value,
                             RecordBlock& block) {
    if (value.is_null()) {
      block.values.insert(block.values.end(), slot.width, 0);
      return {};
    }
    return append_json_floats(slot.name, value, slot.width, block);
  }

  // A number has the hash of its text.
  Status parse_id(std::size_t index, const json& value, RecordBlock& block) {
    const config::DataSlotConfig& slot = data_.slots[index];
    if (slot.is_hashed()) {
      if (value.is_structured()) return wrong(slot, "a text");
      const bool is_text = value.is_string();
      const std::string other = is_text || value.is_null() ? "" : value.dump();
      block.ids.push_back(
          hashes_[index](is_text ? std::string_view(value.get_ref<const std::string&>()) : other));
      return {};
    }
    if (!value.is_number_unsigned() && !value.is_boolean()) {
      return wrong(slot, "a whole number from 0", "a text needs type = \"hash\" or \"hashes\"");
    }
    block.ids.push_back(value.is_boolean() ? value.get<bool>() : value.get<std::uint64_t>());
    return {};
  }

  static Error wrong(const config::DataSlotConfig& slot, std::string_view expected,
                     std::string hint = "") {
    return {Errc::kData, fmt::format("'{}' must be {}", slot.name, expected), std::move(hint)};
  }

  const config::DataConfig& data_;
  const json nothing_;
  std::vector<SlotHash> hashes_;  // by slot
};

}  // namespace

std::unique_ptr<Format> make_jsonl(const config::DataConfig& data,
                                   const Dictionary& /*dictionary*/) {
  return std::make_unique<JsonLines>(data);
}

}  // namespace paddle::data
