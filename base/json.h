// Compact JSON for the lines that programs read: {"port":7164,"lags":[1,2]}.
#pragma once

#include <concepts>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include <fmt/format.h>

namespace paddle {

// Values as JSON text: quoted and escaped, nine significant digits, null for infinity and NaN.
std::string json_text(std::string_view text);
std::string json_text(double value);
template <std::integral T>
std::string json_text(T value) {
  return fmt::format("{}", value);
}
std::string json_text(std::span<const std::uint64_t> values);

// An array, built value by value.
class JsonArray {
 public:
  template <class T>
  JsonArray& add(const T& value) {
    if (!items_.empty()) items_ += ',';
    items_ += json_text(value);
    return *this;
  }
  std::string text() const { return '[' + items_ + ']'; }

 private:
  std::string items_;
};

// An object, built field by field in the order of its text.
class JsonObject {
 public:
  template <class T>
  JsonObject& add(std::string_view key, const T& value) {
    return append(json_text(key) + ':' + json_text(value));
  }
  // Appends all fields of `other`.
  JsonObject& add(const JsonObject& other) { return append(other.fields_); }
  std::string text() const { return '{' + fields_ + '}'; }

 private:
  JsonObject& append(std::string_view fields);

  std::string fields_;
};

inline std::string json_text(const JsonArray& array) {
  return array.text();
}
inline std::string json_text(const JsonObject& object) {
  return object.text();
}

}  // namespace paddle
