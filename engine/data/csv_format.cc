#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/text_bits.h"
#include "base/text_file.h"
#include "engine/config/csv_line.h"
#include "engine/config/data_check.h"
#include "engine/data/dictionary.h"
#include "engine/data/fields.h"
#include "engine/data/format.h"

namespace paddle::data {
namespace {

using config::SlotType;

// Lines of named columns. Fields may be quoted as in RFC 4180, but contain no line end. Blanks
// around a field are dropped, unless DataConfig::trim is false; blanks in quotes are kept. Numbers
// may have blanks around them in any case. An empty float is 0, or NaN in a slot that marks missing
// numbers; an empty text has a hash of its own.
class Csv final : public Format {
 public:
  explicit Csv(const config::DataConfig& data) : data_(data), line_(data.delimiter, data.trim) {
    for (const config::DataSlotConfig& slot : data.slots) {
      hashes_.emplace_back(slot.name, data.buckets);
      class_names_.emplace_back(slot.labels);
    }
    for (const std::string& column : data.columns) {
      names_.push_back(fmt::format("column '{}':", column));
    }
  }

  Status parse(std::string_view line, RecordBlock& block) override {
    if (is_blank_line(line)) return {};
    PADDLE_TRY_STATUS(line_.split(line));
    if (line_.fields().size() != data_.columns.size()) return wrong_count(line);
    const RecordBlock::Extent begin = block.end();
    for (std::size_t i = 0; i < data_.slots.size(); ++i) {
      if (Status good = parse_slot(i, block); !good)
        return of_header(line, std::move(good).error());
    }
    block.add_record(begin);
    return {};
  }

  bool is_blank_line(std::string_view line) const override {
    return line.empty() || (data_.trim && line.find_first_not_of(line_.blanks()) == line.npos);
  }
  bool has_header() const override { return data_.has_header; }
  Status check_header(std::string_view line) override { return config::check_header(line, data_); }

 private:
  static constexpr std::string_view kIdHint =
      "an id, such as a label, must be a whole number (0 or 1); classes with names, or with "
      "numbers that do not start at 0, need labels = [\"no\", \"yes\"] in their slot; other texts "
      "need type = \"hash\"";
  static constexpr std::string_view kNumberHint =
      "an empty field is read as 0; a text needs type = \"hash\"";
  static constexpr std::string_view kTextHint = "a text needs type = \"hash\"";

  // Error for a text that is not UTF-8: its hash would differ from the hash of the same text in
  // JSON, which is always UTF-8.
  Error not_utf8(std::uint32_t column, std::string_view text) const {
    Error wrong = wrong_field(names_[column], text, "UTF-8");
    wrong.hint =
        "make it UTF-8: iconv -f WINDOWS-1252 -t UTF-8 OLD >NEW, or save it as \"CSV UTF-8\"; "
        "retrain models that used the old encoding";
    return wrong;
  }

  // Number of fields if any number of blanks separates two of them.
  static std::size_t fields_between_blanks(std::string_view line) {
    std::size_t count = 0;
    while (!line.empty()) count += take_field(line, ' ').empty() ? 0 : 1;
    return count;
  }

  // Adds to the error that the line is a header, for example the second one of two joined files.
  Error of_header(std::string_view line, Error error) const {
    if (!config::names_columns(line, data_)) return error;
    error.message += ": the line is a header";
    if (data_.has_header) {
      error.hint =
          "only line 1 is read as a header; without later ones: awk 'NR == 1 {head = $0} "
          "NR == 1 || $0 != head' OLD >NEW";
    }
    return error;
  }

  // Error for a line with a wrong number of fields. It names the likeliest mistakes: another
  // delimiter, a table without its label, a delimiter at the end.
  Error wrong_count(std::string_view line) const {
    const std::vector<std::string_view>& fields = line_.fields();
    const std::size_t expected = data_.columns.size();
    Error wrong{Errc::kData, fmt::format("{} fields, not {}", fields.size(), expected)};
    if (line == "\x1a") {
      wrong.message += ": the line is ^Z, by which DOS ends a text";
      wrong.hint = "remove it: tr -d '\\032' <OLD >NEW";
      return wrong;
    }
    if (data_.delimiter == ' ' && fields_between_blanks(line) == expected) {
      wrong.message += ": blanks are next to each other, or at an end of the line";
      wrong.hint = "write one blank between two fields: sed -E 's/ +/ /g; s/^ | $//g' OLD >NEW";
      return wrong;
    }
    for (const char other : {',', ';', '\t', '|', ' '}) {
      const auto count = static_cast<std::size_t>(std::ranges::count(line, other)) + 1;
      if (other == data_.delimiter || expected == 1 || count != expected) continue;
      wrong.message += fmt::format("; separated by '{}' there are {}",
                                   other == '\t' ? "\\t" : std::string(1, other), count);
      wrong.hint = fmt::format("set [data] delimiter = \"{}\"",
                               other == '\t' ? "\\t" : std::string(1, other));
      return wrong;
    }
    if (fields.size() == expected + 1 && fields.back().empty()) {
      wrong.hint =
          "the last field is empty: if each line ends with a delimiter, name one column more";
    } else if (fields.size() + 1 == expected) {
      wrong.hint =
          "[data] columns names every column; data for predictions has the label's too, with any "
          "label";
    }
    return wrong;
  }

  Status parse_slot(std::size_t index, RecordBlock& block) {
    const config::DataSlotConfig& slot = data_.slots[index];
    const std::size_t first = block.ids.size();
    const bool is_id = slot.type == SlotType::kId && slot.labels.empty() && !slot.learns_labels;
    for (const std::uint32_t column : slot.columns) {
      std::string_view field = line_.fields()[column];
      std::uint64_t id = 0;
      if (is_id && read_short_id(field, id)) {
        block.ids.push_back(id);
        continue;
      }
      float value = 0;
      if (slot.type == SlotType::kFloat && read_short_float(field, value)) {
        block.values.push_back(value);
        continue;
      }
      if (slot.separator == 0) {
        PADDLE_TRY_STATUS(parse_value(index, column, field, block));
        continue;
      }
      while (!field.empty()) {
        const std::string_view part = line_.trimmed(take_field(field, slot.separator));
        PADDLE_TRY_STATUS(parse_value(index, column, part, block));
      }
    }
    if (slot.has_many_ids()) {
      block.counts.push_back(static_cast<std::uint32_t>(block.ids.size() - first));
    }
    return {};
  }

  Status parse_value(std::size_t index, std::uint32_t column, std::string_view text,
                     RecordBlock& block) {
    if (data_.slots[index].is_hashed()) {
      if (!is_ascii(text) && !is_utf8(text)) return not_utf8(column, text);
      block.ids.push_back(hashes_[index](text));
      return {};
    }
    text = line_.without_blanks(text);
    const config::DataSlotConfig& slot = data_.slots[index];
    if (slot.type == SlotType::kFloat) return parse_number(slot, column, text, block);
    if (!class_names_[index].empty())
      return class_names_[index].parse(text, names_[column], block.ids.emplace_back());
    if (slot.learns_labels) return learn_label(index, column, text, block);
    return parse_id(text, names_[column], block.ids.emplace_back(), kIdHint);
  }

  Status parse_number(const config::DataSlotConfig& slot, std::uint32_t column,
                      std::string_view text, RecordBlock& block) const {
    float& value = block.values.emplace_back();
    if (text.empty()) {
      if (slot.marks_missing()) {
        value = kMissing;
      } else {
        block.count_empty(column);
      }
      return {};
    }
    Status parsed =
        parse_float(text, names_[column], value, slot.marks_missing() ? kTextHint : kNumberHint);
    if (parsed || !is_missing_value(text)) return parsed;
    if (!slot.marks_missing()) {
      Error error = std::move(parsed).error();
      error.hint = kMissingHint;
      return error;
    }
    value = kMissing;
    return {};
  }

  Status learn_label(std::size_t index, std::uint32_t column, std::string_view text,
                     RecordBlock& block) const {
    if (!is_ascii(text) && !is_utf8(text)) return not_utf8(column, text);
    PADDLE_TRY_STATUS(check_new_label(text, names_[column]));
    block.see_label(index, text);
    block.ids.push_back(0);
    return {};
  }

  const config::DataConfig& data_;
  std::vector<SlotHash> hashes_;         // by slot
  std::vector<ClassNames> class_names_;  // by slot
  std::vector<std::string> names_;       // by column, for messages
  config::CsvLine line_;
};

}  // namespace

std::unique_ptr<Format> make_csv(const config::DataConfig& data, const Dictionary& /*dictionary*/) {
  return std::make_unique<Csv>(data);
}

}  // namespace paddle::data
