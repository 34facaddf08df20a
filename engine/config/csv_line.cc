#include "engine/config/csv_line.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

#include "base/check.h"
#include "base/text_bits.h"

namespace paddle::config {
namespace {

constexpr std::array<std::string_view, 16> kMissing{
    // as pandas reads them, and UCI's "?"
    "NA",   "N/A",  "n/a",  "#N/A", "<NA>", "NaN", "nan",     "-nan",
    "null", "NULL", "None", "none", "nil",  "?",   "missing", "\\N"};

// Calls use(index) for each `wanted` in the text. It compares 64 bytes at once: fields are a few
// bytes long, so that one search for each would cost more.
template <class Use>
void for_each_match(std::string_view text, char wanted, const Use& use) {
  for (std::size_t begin = 0; begin < text.size(); begin += ByteBlock::kBytes) {
    std::uint64_t mask = ByteBlock(text, begin).matches(wanted);
    for (; mask != 0; mask &= mask - 1) {
      use(begin + static_cast<std::size_t>(std::countr_zero(mask)));
    }
  }
}

}  // namespace

CsvLine::CsvLine(char delimiter, bool trims) : delimiter_(delimiter), trims_(trims) {
  PADDLE_CHECK(delimiter != '\0');
  for (const char blank : {' ', '\t'}) {
    if (blank != delimiter) blanks_ += blank;
  }
}

std::string_view CsvLine::without_blanks(std::string_view field) const {
  const std::size_t begin = std::min(field.find_first_not_of(blanks_), field.size());
  return field.substr(begin, field.find_last_not_of(blanks_) + 1 - begin);
}

Status CsvLine::split(std::string_view line) {
  fields_.clear();
  if (line.find('"') != std::string_view::npos) return split_quoted(line);
  std::size_t begin = 0;
  for_each_match(line, delimiter_, [&](std::size_t end) {
    fields_.push_back(trimmed(line.substr(begin, end - begin)));
    begin = end + 1;
  });
  fields_.push_back(trimmed(line.substr(begin)));
  return {};
}

// Appends each field without its quotes to unquoted_.
Status CsvLine::split_quoted(std::string_view line) {
  unquoted_.clear();
  unquoted_.reserve(line.size());  // fields_ point into it
  for (std::size_t at = 0;;) {
    const std::size_t begin = unquoted_.size();
    const std::size_t mark =
        trims_ ? std::min(line.find_first_not_of(blanks_, at), line.size()) : at;
    if (mark < line.size() && line[mark] == '"') {
      at = mark;
      PADDLE_TRY_STATUS(take_quoted(line, at));
      fields_.push_back(std::string_view(unquoted_).substr(begin));
    } else {
      for (; at < line.size() && line[at] != delimiter_; ++at) unquoted_ += line[at];
      fields_.push_back(trimmed(std::string_view(unquoted_).substr(begin)));
    }
    if (at++ >= line.size()) return {};
  }
}

// Appends the text between the quotes to unquoted_, and moves `at` to the delimiter behind them.
Status CsvLine::take_quoted(std::string_view line, std::size_t& at) {
  for (++at;; ++at) {
    if (at >= line.size()) {
      return Error{Errc::kData,
                   "a quote is not closed in this line, and a field cannot contain a line end",
                   "replace line ends in fields by blanks, and a single quote by two"};
    }
    if (line[at] == '"' && (++at >= line.size() || line[at] != '"')) break;
    unquoted_ += line[at];
  }
  if (trims_) at = std::min(line.find_first_not_of(blanks_, at), line.size());
  if (at >= line.size() || line[at] == delimiter_) return {};
  return Error{Errc::kData, "text follows a closing quote"};
}

bool is_missing_value(std::string_view text) {
  return std::ranges::find(kMissing, text) != kMissing.end();
}

}  // namespace paddle::config
