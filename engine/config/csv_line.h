// The fields of one line of a csv file, as in RFC 4180, but without line ends inside a field.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace paddle::config {

class CsvLine {
 public:
  // trims: blanks around a field do not belong to it. Inside quotes they do. REQUIRES: the
  // delimiter is not a zero byte.
  CsvLine(char delimiter, bool trims);

  // kData: a quote is not closed, or text follows a closing quote.
  Status split(std::string_view line);

  // The fields of the last line. They point into that line, or into this object until the next
  // split().
  const std::vector<std::string_view>& fields() const { return fields_; }
  // Spaces and tabs, except the delimiter.
  const std::string& blanks() const { return blanks_; }
  std::string_view without_blanks(std::string_view field) const;
  // The field without blanks around it, if they do not belong to it.
  std::string_view trimmed(std::string_view field) const {
    const auto may_be_blank = [](char c) { return c == ' ' || c == '\t'; };
    if (!trims_ || field.empty()) return field;
    return may_be_blank(field.front()) || may_be_blank(field.back()) ? without_blanks(field)
                                                                     : field;
  }

 private:
  Status split_quoted(std::string_view line);
  Status take_quoted(std::string_view line, std::size_t& at);

  char delimiter_;
  bool trims_;
  std::string blanks_;
  std::vector<std::string_view> fields_;
  std::string unquoted_;
};

// Whether the text is one that stands for a missing value: "NA", "nan", "?".
bool is_missing_value(std::string_view text);

}  // namespace paddle::config
