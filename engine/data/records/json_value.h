// A value in a JSON text. It lies in an array: the items of a list follow it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "engine/data/records/fields.h"

namespace paddle::data {

class JsonValue {
 public:
  JsonValue() : bits_{.inner = 0} {}  // null
  static JsonValue of_bool(bool value) { return {Kind::kBool, value ? 1U : 0U, {.inner = 0}}; }
  static JsonValue of_number(std::string_view text) { return {Kind::kNumber, text}; }
  static JsonValue of_text(std::string_view text) { return {Kind::kText, text}; }
  // `inner` values follow it: its items, and those inside of them.
  static JsonValue of_list(std::uint32_t size, std::size_t inner) {
    return {Kind::kList, size, {.inner = inner}};
  }
  static JsonValue of_object(std::uint32_t size, std::size_t inner) {
    return {Kind::kObject, size, {.inner = inner}};
  }

  bool is_null() const { return kind_ == Kind::kNull; }
  bool is_bool() const { return kind_ == Kind::kBool; }
  bool is_number() const { return kind_ == Kind::kNumber; }
  bool is_text() const { return kind_ == Kind::kText; }
  bool is_list() const { return kind_ == Kind::kList; }
  bool is_object() const { return kind_ == Kind::kObject; }

  bool truth() const { return size_ != 0; }                      // of a bool
  std::string_view text() const { return {bits_.text, size_}; }  // of a text, or a number's digits
  // If it is a whole number from 0 to 2^64-1.
  std::optional<std::uint64_t> whole() const {
    std::uint64_t value = 0;
    if (is_number() && read_short_id(text(), value)) return value;
    return long_whole();
  }
  // Of a number; may be infinite.
  float number() const {
    float value = 0;
    return read_short_float(text(), value) ? value : long_number();
  }
  // A bool or a number in its shortest spelling: 1.50 is "1.5", and 1e2 "100.0".
  std::string shown() const;

  std::size_t size() const { return size_; }  // items of a list, members of an object
  const JsonValue* items() const { return this + 1; }
  // The item that follows this one.
  const JsonValue* next() const { return this + 1 + (is_list() || is_object() ? bits_.inner : 0); }

 private:
  enum class Kind : std::uint8_t { kNull, kBool, kNumber, kText, kList, kObject };
  union Bits {
    const char* text;
    std::size_t inner;
  };
  JsonValue(Kind kind, std::uint32_t size, Bits bits) : bits_(bits), size_(size), kind_(kind) {}
  JsonValue(Kind kind, std::string_view text)
      : JsonValue(kind, static_cast<std::uint32_t>(text.size()), {.text = text.data()}) {}

  std::optional<std::uint64_t> long_whole() const;
  float long_number() const;

  Bits bits_;
  std::uint32_t size_ = 0;
  Kind kind_ = Kind::kNull;
};
static_assert(sizeof(JsonValue) == 16);

}  // namespace paddle::data
