#include "engine/config/data_check.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/fd.h"
#include "base/text.h"
#include "base/text_file.h"
#include "engine/config/csv_line.h"
#include "engine/config/job_config.h"

namespace paddle::config {
namespace {

constexpr std::size_t kHeaderShownBytes = 200;
constexpr std::size_t kWordShownBytes = 40;
constexpr std::size_t kColumnsShown = 30;
constexpr std::size_t kWordsBytesMax = 1U << 30U;
constexpr std::string_view kWordBlanks = " \t\v\f";  // between the words of a text

std::string_view trimmed(std::string_view text, std::string_view blanks) {
  const std::size_t begin = std::min(text.find_first_not_of(blanks), text.size());
  return text.substr(begin, text.find_last_not_of(blanks) + 1 - begin);
}

// Empty for a line whose quotes CsvLine refuses.
std::vector<std::string> fields_of(std::string_view line, char delimiter, bool trims) {
  CsvLine fields(delimiter, trims);
  if (!fields.split(line)) return {};
  return {fields.fields().begin(), fields.fields().end()};
}

bool is_number(const std::string& text) {
  double number = 0;
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, number);
  return read.ptr == end && !text.empty() && std::isfinite(number);
}

// The hint for a first line that other programs write above or around the names; "" for others.
std::string foreign_header_hint(std::string_view line, const DataConfig& data) {
  if (line.starts_with("sep=")) return "spreadsheets write this line: sed 1d OLD >NEW removes it";
  if (line.starts_with('#') && !data.columns.empty() && !data.columns.front().starts_with('#')) {
    if (names_columns(line.substr(std::min(line.find_first_not_of("# "), line.size())), data))
      return "names are written without '#': sed -E '1s/^#+ *//' OLD >NEW";
    return "a csv file has no comments: sed '/^#/d' OLD >NEW removes them";
  }
  std::vector<std::string> fields = fields_of(line, data.delimiter, data.trim);
  if (fields.size() != data.columns.size() + 1) return "";
  const auto others = [&](std::size_t from) {
    return std::equal(data.columns.begin(), data.columns.end(),
                      fields.begin() + static_cast<std::ptrdiff_t>(from));
  };
  if (fields.front().empty() && others(1)) {
    return "the first column has no name, as the index that pandas writes: write the file by "
           "to_csv(index=False), or name this column in the header and in [data] columns";
  }
  if (fields.back().empty() && others(0)) {
    const bool is_plain =
        std::string_view(",;|: \t").find(data.delimiter) != std::string_view::npos;
    return "each line ends with a delimiter, which must be removed" +
           (is_plain ? fmt::format(": sed 's/{}[[:blank:]\\r]*$//' OLD >NEW",
                                   data.delimiter == '\t' ? "\\t" : std::string(1, data.delimiter))
                     : std::string());
  }
  return "";
}

// The only column that `names` lack; "" if they differ otherwise.
std::string lacking_column(const std::vector<std::string>& names, const DataConfig& data) {
  if (names.size() + 1 != data.columns.size()) return "";
  const auto differs = std::ranges::mismatch(names, data.columns);
  return std::equal(differs.in1, names.end(), differs.in2 + 1) ? *differs.in2 : "";
}

// The likeliest mistakes: another delimiter, no header, data for predictions without labels, other
// names or another order.
std::string header_hint(std::string_view line, const DataConfig& data) {
  if (std::string hint = foreign_header_hint(line, data); !hint.empty()) return hint;
  for (const char other : {',', ';', '\t', '|'}) {
    if (other != data.delimiter && fields_of(line, other, data.trim) == data.columns)
      return fmt::format("set [data] delimiter = \"{}\"",
                         other == '\t' ? "\\t" : std::string(1, other));
  }
  const std::vector<std::string> fields = fields_of(line, data.delimiter, data.trim);
  if (const std::string lacking = lacking_column(fields, data); !lacking.empty()) {
    return fmt::format(
        "the column '{}' is missing: data for predictions has the label's column too, with any "
        "label; for other data [data] columns names every column of the file",
        escape_control(lacking));
  }
  const auto is_value = [&](const std::string& field) {
    return is_number(field) && std::ranges::find(data.columns, field) == data.columns.end();
  };
  if (std::ranges::any_of(fields, is_value))
    return "it has numbers: if it is not a header, write one above it, or set [data] header = "
           "false for files without one";
  const auto is_plain = [](const std::string& field) {
    return !field.empty() && field.find_first_of("\"\\") == field.npos &&
           escape_control(field) == field;
  };
  std::string hint = "[data] columns must name them all, in this order";
  if (fields.size() > 1 && fields.size() <= kColumnsShown && std::ranges::all_of(fields, is_plain))
    hint += fmt::format(": columns = [\"{}\"]", fmt::join(fields, "\", \""));
  return hint;
}

std::string shown(std::string_view word) {
  return fmt::format("'{}{}'", escape_control(word.substr(0, kWordShownBytes)),
                     word.size() > kWordShownBytes ? "..." : "");
}

}  // namespace

bool names_columns(std::string_view line, const DataConfig& data) {
  return fields_of(line, data.delimiter, data.trim) == data.columns;
}

bool names_are_no_record(const DataConfig& data) {
  return std::ranges::any_of(data.slots, [&](const DataSlotConfig& slot) {
    return !slot.is_hashed() && slot.labels.empty() && !slot.learns_labels &&
           std::ranges::any_of(slot.columns, [&](std::uint32_t column) {
             return column < data.columns.size() && !is_number(data.columns[column]);
           });
  });
}

Status check_header(std::string_view line, const DataConfig& data) {
  if (names_columns(line, data)) return {};
  return Error{
      Errc::kUsage,
      fmt::format("the first line '{}' does not name the columns {}",
                  escape_control(line.substr(0, kHeaderShownBytes)), fmt::join(data.columns, ", ")),
      header_hint(line, data)};
}

Status check_dictionary(const DataConfig& data, const std::string& folder) {
  constexpr auto kOfWords = std::to_array<std::string_view>({"ngram", "bow"});
  if (data.dictionary.empty() || std::ranges::find(kOfWords, data.format) == kOfWords.end())
    return {};
  const std::string path = in_folder(folder, data.dictionary);
  PADDLE_TRY(std::string bytes, read_file(path, kWordsBytesMax));
  const std::string text = text_of_lines(std::move(bytes));
  if (text.find('\0') != text.npos) {
    return Error{Errc::kData, path + ": it has zero bytes, but a dictionary is text in UTF-8",
                 "UTF-16: iconv -f UTF-16 -t UTF-8 OLD >NEW; unpack a compressed dictionary"};
  }
  std::string_view last, first_with_blank;
  std::size_t number = 0, first_number = 0, with_blanks = 0;
  bool is_wrong = false;
  for (std::string_view rest = text; !rest.empty();) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    last = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (last.ends_with('\r')) last.remove_suffix(1);
    ++number;
    if (last.find_first_of(kWordBlanks) == last.npos) continue;
    // A line with a blank at an end never equals a word. A few lines of several words are harmless,
    // but if half of all lines have blanks, they probably have counts.
    is_wrong = is_wrong || trimmed(last, kWordBlanks) != last;
    if (with_blanks++ > 0) continue;
    first_with_blank = last;
    first_number = number;
  }
  if (is_wrong || (with_blanks > 0 && 2 * with_blanks >= number)) {
    return Error{Errc::kData,
                 fmt::format("{}:{}: {} contains a blank, so it matches no word of a text", path,
                             first_number, shown(first_with_blank)),
                 "write one word per line, without counts and blanks: awk '{print $1}' OLD >NEW"};
  }
  if (last == "<unk>") return {};
  return Error{Errc::kData,
               fmt::format("{}: the last line is not <unk>, but {}", path, shown(last)),
               "words that are not in the dictionary get the last line's id"};
}

}  // namespace paddle::config
