// The fields of one line of a csv file: RFC 4180, but no line end inside a field.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace paddle::config {

class CsvLine {
 public:
  // trims: blanks around a field are no part of it. In quotes they stay.
  CsvLine(char delimiter, bool trims);

  // kData: a quote that is not closed, or text behind a closing one.
  Status split(std::string_view line);

  // Those of the last line. They point into it, or into this object until the next split().
  const std::vector<std::string_view>& fields() const { return fields_; }
  // Spaces and tabs, but for the delimiter.
  const std::string& blanks() const { return blanks_; }
  std::string_view without_blanks(std::string_view field) const;
  // Without blanks where they are no part of a field.
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

}  // namespace paddle::config
