// JSON values of --json output, and the flat objects of metrics.jsonl.
#pragma once

#include <concepts>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace paddle::cli {

// A value as JSON text on one line. Objects keep the order of their keys.
class Json {
 public:
  Json() : text_("null") {}
  // Quoted; control characters other than \n and \t, and bytes that are not UTF-8, become \xNN.
  Json(std::string_view text);
  Json(const std::string& text) : Json(std::string_view(text)) {}
  Json(const char* text) : Json(std::string_view(text)) {}
  template <std::integral Value>
  Json(Value value) {
    if constexpr (std::same_as<Value, bool>) {
      text_ = value ? "true" : "false";
    } else {
      text_ = std::to_string(value);
    }
  }
  template <class Value>
  Json(const std::optional<Value>& value) : Json(value ? Json(*value) : Json()) {}

  static Json number(double value);             // shortest text; null if not finite
  static Json fixed(double value, int digits);  // digits: after the point; null if not finite
  static Json list(const std::vector<Json>& values);
  using Fields = std::vector<std::pair<std::string, Json>>;
  static Json object(const Fields& fields);

  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

constexpr std::size_t kJsonFieldsMax = 4096;  // fields of an object, or values of a list

struct JsonField {
  using Value = std::variant<std::monostate,  // null, true or false
                             double, std::string, std::vector<double>>;

  std::string key;
  Value value;
};

// The text of a JSON line with null in place of each number that JSON cannot express: NaN and
// Infinity, as Python's json.dumps and others write them, and numbers beyond the range of a double.
std::string strict_json(std::string_view text);

// The fields of one object of strings, numbers, constants and lists of numbers, in their order. A
// number that JSON cannot express becomes null; a null in a list becomes NaN. Returns nothing for
// any other text. Nodes write these lines, so deeper nesting, a key that appears twice and more
// than kJsonFieldsMax fields are refused.
std::optional<std::vector<JsonField>> read_flat_object(std::string_view text);

}  // namespace paddle::cli
