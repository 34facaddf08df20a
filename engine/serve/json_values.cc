#include "engine/serve/json_values.h"

#include <algorithm>

#include <fmt/format.h>

#include "engine/data/records/json_reader.h"

namespace paddle::serve {
namespace {

constexpr std::string_view kBodyMark = "\xef\xbb\xbf";
constexpr std::string_view kJsonBlanks = " \t\r\n";

Error bad_body(std::string what) {
  return {Errc::kData, std::move(what), "send an object a line, or an array of objects"};
}

// Where the value ends that begins with a bracket: behind the bracket that closes it. Nothing: it
// is not closed.
Result<std::optional<std::size_t>> end_of_brackets(std::string_view text) {
  std::size_t depth = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    switch (text[at]) {
      case '"':
        for (++at; at < text.size() && text[at] != '"'; ++at) at += text[at] == '\\' ? 1 : 0;
        break;
      case '{':
      case '[':
        if (++depth > data::kJsonDepthMax)
          return Error{Errc::kData,
                       fmt::format("it is nested more than {} deep", data::kJsonDepthMax)};
        break;
      case '}':
      case ']':
        if (--depth == 0) return std::optional(at + 1);
        break;
      default:
        break;
    }
  }
  return std::optional<std::size_t>();
}

}  // namespace

JsonValues::JsonValues(std::string_view body) : left_(body) {
  if (left_.starts_with(kBodyMark)) left_.remove_prefix(kBodyMark.size());
  skip_blanks();
  if (!left_.starts_with('[')) return;
  is_array_ = true;
  left_.remove_prefix(1);
}

void JsonValues::skip_blanks() {
  const std::size_t count = std::min(left_.find_first_not_of(kJsonBlanks), left_.size());
  line_ += static_cast<std::uint64_t>(std::ranges::count(left_.substr(0, count), '\n'));
  left_.remove_prefix(count);
}

Result<std::optional<std::string_view>> JsonValues::next() {
  skip_blanks();
  if (is_array_) PADDLE_TRY_STATUS(step_in_array());
  if (is_over_ || left_.empty()) return std::optional<std::string_view>();
  ++values_;
  value_line_ = line_;
  PADDLE_TRY(const std::string_view value, take_value());
  line_ += static_cast<std::uint64_t>(std::ranges::count(value, '\n'));
  return std::optional(value);
}

// Over the comma before a value, or over the end of the array, behind which there is nothing.
Status JsonValues::step_in_array() {
  if (is_over_) return {};
  if (left_.starts_with(']')) {
    is_over_ = true;
    left_.remove_prefix(1);
    skip_blanks();
    if (left_.empty()) return {};
    return bad_body("there is something behind the array");
  }
  if (values_ > 0) {
    if (!left_.starts_with(','))
      return bad_body(left_.empty() ? "the array is not closed"
                                    : fmt::format("there is no comma behind record {}", values_));
    left_.remove_prefix(1);
    skip_blanks();
  }
  if (left_.empty()) return bad_body("the array is not closed");
  return {};
}

Result<std::string_view> JsonValues::take_value() {
  std::size_t end = std::min(left_.find('\n'), left_.size());
  if (left_.starts_with('{') || left_.starts_with('[')) {
    PADDLE_TRY(const auto closed, end_of_brackets(left_));
    // An open value goes to the parser up to the line end, which says that it is no object.
    if (closed) end = *closed;
  } else if (is_array_) {
    end = std::min({end, left_.find(','), left_.find(']')});
  }
  const std::string_view value = left_.substr(0, end);
  left_.remove_prefix(end);
  return value;
}

}  // namespace paddle::serve
