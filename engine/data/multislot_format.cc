#include <fmt/format.h>

#include "engine/data/fields.h"
#include "engine/data/format.h"

namespace paddle::data {
namespace {

using config::SlotType;

constexpr std::uint64_t kSlotValuesMax = 1U << 24U;  // more than fit into a line

// Lines with "<n> value ... value" for each slot in the order of job.toml, n at least 1.
class MultiSlot final : public Format {
 public:
  explicit MultiSlot(const config::DataConfig& data) {
    for (const config::DataSlotConfig& slot : data.slots) {
      slots_.push_back({&slot, ClassNames(slot.labels),
                        fmt::format("slot '{}': the number of values", slot.name),
                        fmt::format("slot '{}': the value", slot.name)});
    }
  }

  Status parse(std::string_view line, RecordBlock& block) override {
    if (is_blank(line)) return {};
    const RecordBlock::Extent record = block.end();
    for (const Slot& slot : slots_) {
      const RecordBlock::Extent begin = block.end();
      PADDLE_TRY_STATUS(parse_slot(slot, line, block));
      if (!slot.config->used) block.drop_since(begin);
    }
    if (const std::string_view more = take_word(line); !more.empty()) {
      return wrong_field("after the last slot,", more, "expected");
    }
    block.add_record(record);
    return {};
  }

 private:
  struct Slot {
    const config::DataSlotConfig* config;
    ClassNames classes;
    std::string count_name, value_name;  // for messages
  };

  static Status parse_slot(const Slot& slot, std::string_view& line, RecordBlock& block) {
    std::uint64_t count = 0;
    PADDLE_TRY_STATUS(parse_id(take_word(line), slot.count_name, count));
    const bool is_float = slot.config->type == SlotType::kFloat;
    const bool many = slot.config->type == SlotType::kIds;
    const std::uint64_t expected = is_float ? slot.config->width : 1;
    if (count == 0) {
      return Error{Errc::kData,
                   fmt::format("slot '{}' has no values; the data must pad it", slot.config->name)};
    }
    if (many ? count > kSlotValuesMax : count != expected) {
      return Error{Errc::kData,
                   fmt::format("slot '{}' has {} values, not {}", slot.config->name, count,
                               many ? fmt::format("up to {}", kSlotValuesMax)
                                    : fmt::format("{}", expected))};
    }
    for (std::uint64_t i = 0; i < count; ++i) {
      const std::string_view word = take_word(line);
      if (is_float) {
        PADDLE_TRY_STATUS(parse_number(slot, word, block.values.emplace_back()));
      } else if (!slot.classes.empty()) {
        PADDLE_TRY_STATUS(slot.classes.parse(word, slot.value_name, block.ids.emplace_back()));
      } else {
        PADDLE_TRY_STATUS(parse_id(word, slot.value_name, block.ids.emplace_back()));
      }
    }
    if (many) block.counts.push_back(static_cast<std::uint32_t>(count));
    return {};
  }

  static Status parse_number(const Slot& slot, std::string_view word, float& value) {
    Status parsed = parse_float(word, slot.value_name, value);
    if (parsed || !slot.config->marks_missing() || !is_missing_value(word)) return parsed;
    value = kMissing;
    return {};
  }

  std::vector<Slot> slots_;
};

}  // namespace

std::unique_ptr<Format> make_multislot(const config::DataConfig& data,
                                       const Dictionary& /*dictionary*/) {
  return std::make_unique<MultiSlot>(data);
}

}  // namespace paddle::data
