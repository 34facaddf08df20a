#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "engine/data/records/fields.h"
#include "engine/data/records/format.h"

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
    const json record = json::parse(line, nullptr, false);
    if (!record.is_object()) return Error{Errc::kData, "it is no JSON object"};
    const RecordBlock::Extent begin = block.end();
    for (std::size_t i = 0; i < data_.slots.size(); ++i) {
      const auto found = record.find(data_.slots[i].name);
      PADDLE_TRY_STATUS(parse_slot(i, found == record.end() ? json() : *found, block));
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
    const auto add = [&](const json& number) {
      if (number.is_boolean()) {
        block.values.push_back(number.get<bool>() ? 1 : 0);
        return true;
      }
      if (!number.is_number()) return false;
      block.values.push_back(number.get<float>());
      return std::isfinite(block.values.back());
    };
    if (value.is_null()) {
      block.values.insert(block.values.end(), slot.width, 0);
      return {};
    }
    const bool is_right = value.is_array()
                              ? value.size() == slot.width && std::ranges::all_of(value, add)
                              : slot.width == 1 && add(value);
    if (is_right) return {};
    return wrong(slot, slot.width == 1 ? "a number" : fmt::format("{} numbers", slot.width));
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
  std::vector<SlotHash> hashes_;  // by slot
};

}  // namespace

std::unique_ptr<Format> make_jsonl(const config::DataConfig& data,
                                   const Dictionary& /*dictionary*/) {
  return std::make_unique<JsonLines>(data);
}

}  // namespace paddle::data
