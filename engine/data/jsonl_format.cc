#include <fmt/format.h>

#include "base/json_reader.h"
#include "engine/data/fields.h"
#include "engine/data/format.h"
#include "engine/data/json_fields.h"

namespace paddle::data {
namespace {

using config::SlotType;

// JSON Lines: one object per line, whose keys are slots; other keys are ignored. A value that is
// missing or null is read as 0, an empty text or an empty list, as an empty field of csv is; a
// number of a slot that marks missing ones is NaN then.
class JsonLines final : public Format {
 public:
  explicit JsonLines(const config::DataConfig& data) : data_(data), reader_(slot_names(data)) {
    for (const config::DataSlotConfig& slot : data.slots) {
      hashes_.emplace_back(slot.name, data.buckets);
      class_names_.emplace_back(slot.labels);
    }
  }

  Status parse(std::string_view line, RecordBlock& block) override {
    if (line.find_first_not_of(" \t\r") == line.npos) return {};
    Status parsed = reader_.read(line);
    if (parsed) parsed = add_record(block);
    reader_.trim();
    return parsed;
  }

 private:
  static std::vector<std::string> slot_names(const config::DataConfig& data) {
    std::vector<std::string> names;
    for (const config::DataSlotConfig& slot : data.slots) names.push_back(slot.name);
    return names;
  }

  Status add_record(RecordBlock& block) {
    const RecordBlock::Extent begin = block.end();
    for (std::size_t i = 0; i < data_.slots.size(); ++i) {
      const JsonValue* const found = reader_.find(i);
      PADDLE_TRY_STATUS(parse_slot(i, found == nullptr ? nothing_ : *found, block));
    }
    block.add_record(begin);
    return {};
  }

  Status parse_slot(std::size_t index, const JsonValue& value, RecordBlock& block) {
    const config::DataSlotConfig& slot = data_.slots[index];
    if (slot.type == SlotType::kFloat) return parse_floats(index, value, block);
    if (!slot.has_many_ids()) return parse_id(index, value, block);
    if (!value.is_list() && !value.is_null()) return wrong(slot, "a list");
    const JsonValue* item = value.items();
    for (std::size_t i = 0; i < value.size(); ++i, item = item->next())
      PADDLE_TRY_STATUS(parse_id(index, *item, block));
    block.counts.push_back(static_cast<std::uint32_t>(value.size()));
    return {};
  }

  Status parse_floats(std::size_t index, const JsonValue& value, RecordBlock& block) const {
    const config::DataSlotConfig& slot = data_.slots[index];
    if (value.is_null()) {
      block.values.insert(block.values.end(), slot.width, slot.marks_missing() ? kMissing : 0);
      if (!slot.marks_missing()) block.count_empty(index);
      return {};
    }
    return append_json_floats(slot.name, value, slot.width, slot.marks_missing(), block);
  }

  // Parses one id. In a hashed slot, a number has the hash of its text.
  Status parse_id(std::size_t index, const JsonValue& value, RecordBlock& block) {
    const config::DataSlotConfig& slot = data_.slots[index];
    if (slot.is_hashed()) {
      if (value.is_list() || value.is_object()) return wrong(slot, "a string");
      const std::string other = value.is_text() ? "" : value.shown();
      block.ids.push_back(hashes_[index](value.is_text() ? value.text() : other));
      return {};
    }
    if (value.is_null() && !slot.has_many_ids()) {
      return Error{
          Errc::kData, fmt::format("'{}' is missing", slot.name),
          "a record needs all its ids, such as its label; for predictions any label will do"};
    }
    const bool has_names = !slot.labels.empty() || slot.learns_labels;
    if (has_names && !value.is_list() && !value.is_object()) {
      const std::string other = value.is_text() ? "" : value.shown();
      return parse_label(index, value.is_text() ? value.text() : other, block);
    }
    const std::optional<std::uint64_t> id = value.is_bool() ? value.truth() : whole_of(value);
    if (!id) {
      Error error = not_whole(slot.name, value);
      error.hint =
          "classes with names need labels = [\"no\", \"yes\"] in their slot; other texts need "
          "type = \"hash\" or \"hashes\"";
      return error;
    }
    block.ids.push_back(*id);
    return {};
  }

  Status parse_label(std::size_t index, std::string_view text, RecordBlock& block) const {
    const std::string what = fmt::format("'{}':", data_.slots[index].name);
    if (!class_names_[index].empty())
      return class_names_[index].parse(text, what, block.ids.emplace_back());
    PADDLE_TRY_STATUS(check_new_label(text, what));
    block.see_label(index, text);
    block.ids.push_back(0);
    return {};
  }

  static Error wrong(const config::DataSlotConfig& slot, std::string_view expected) {
    return {Errc::kData, fmt::format("'{}' must be {}", slot.name, expected)};
  }

  const config::DataConfig& data_;
  const JsonValue nothing_;
  std::vector<SlotHash> hashes_;         // by slot
  std::vector<ClassNames> class_names_;  // by slot
  JsonReader reader_;                    // its keys are the names of the slots
};

}  // namespace

std::unique_ptr<Format> make_jsonl(const config::DataConfig& data,
                                   const Dictionary& /*dictionary*/) {
  return std::make_unique<JsonLines>(data);
}

}  // namespace paddle::data
