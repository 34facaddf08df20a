// The records in a JSON body, one after the other: an object a line, objects over several lines, or
// one array of objects.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace paddle::serve {

class JsonValues {
 public:
  // The body must outlive this.
  explicit JsonValues(std::string_view body);

  // The text of the next value. It ends where the value's last bracket closes; a value that is no
  // object ends with its line, and a parser says what is wrong with it. Nothing at the end. kData:
  // brackets are not closed, or values of the array are not separated by one comma.
  Result<std::optional<std::string_view>> next();
  // The values are those of an array, and the answers are too.
  bool is_array() const { return is_array_; }
  // Of the value that next() returned: its line, or in an array its place there, both from 1.
  std::uint64_t number() const { return is_array_ ? values_ : value_line_; }

 private:
  // Skips blanks and line ends, and counts those.
  void skip_blanks();
  Result<std::string_view> take_value();
  Status step_in_array();

  std::string_view left_;
  bool is_array_ = false;
  bool is_over_ = false;
  std::uint64_t line_ = 1;  // where left_ begins
  std::uint64_t value_line_ = 1;
  std::uint64_t values_ = 0;
};

}  // namespace paddle::serve
