// Reader of JSON objects: records and lines of programs, one per line, and requests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"

namespace paddle {

// A value in a JSON text. Values are stored in an array, in which the items of a list follow the
// list, and the members of an object follow the object: each is its key, a text, and its value.
class JsonValue {
 public:
  JsonValue() : bits_{.inner = 0} {}  // null
  static JsonValue of_bool(bool value) { return {Kind::kBool, value ? 1U : 0U, {.inner = 0}}; }
  static JsonValue of_number(std::string_view text) { return {Kind::kNumber, text}; }
  static JsonValue of_text(std::string_view text) { return {Kind::kText, text}; }
  // The next `inner` values are inside it: its items or members, and the values inside of these.
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

  bool truth() const { return size_ != 0; }                      // value of a bool
  std::string_view text() const { return {bits_.text, size_}; }  // a text, or a number as written
  // The double that is nearest to a number; infinite if that is beyond 1.8e308.
  double number() const;
  // A bool or a number in its shortest spelling: "1.5" for 1.50, "100.0" for 1e2.
  std::string shown() const;

  std::size_t size() const { return size_; }  // items of a list, members of an object
  // The first item of a list, or the key of an object's first member.
  const JsonValue* items() const { return this + 1; }
  // The item that follows this one; after a key, its value; after a value, the next key.
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

  Bits bits_;
  std::uint32_t size_ = 0;
  Kind kind_ = Kind::kNull;
};
static_assert(sizeof(JsonValue) == 16);

constexpr std::size_t kJsonDepthMax = 64;        // the parser recurses for each level
constexpr std::size_t kJsonNumberShownMax = 40;  // characters of a number in a message

struct JsonLimits {
  std::size_t depth = kJsonDepthMax;  // at most kJsonDepthMax
  // Items of a list, or members of an object.
  std::size_t items = std::numeric_limits<std::size_t>::max();
};

// Reads one text after another into the same memory.
class JsonReader {
 public:
  // `keys`: those that find() looks for. REQUIRES: no key repeats.
  explicit JsonReader(std::vector<std::string> keys, const JsonLimits& limits = {});

  // kData: the text is no JSON object, or is beyond the limits. The values are valid until trim()
  // or the next read().
  Status read(std::string_view text);
  // Frees the memory of a text that was much larger than most.
  void trim();

  const JsonValue& object() const { return values_.front(); }
  const std::vector<std::string>& keys() const { return keys_; }
  // The index of a key in keys(); their number if they do not contain it.
  std::size_t index_of(std::string_view key) const {
    const auto found = numbers_.find(key);
    return found == numbers_.end() ? keys_.size() : found->second;
  }
  // The value of keys()[key], the last one if the text repeats the key; null if it has none.
  const JsonValue* find(std::size_t key) const {
    return places_[key] == 0 ? nullptr : &values_[places_[key]];
  }
  // The first key in the text that is not in keys().
  const std::optional<std::string_view>& unknown() const { return unknown_; }

 private:
  class Events;
  // Looks up a text without a copy of it.
  struct Hash : std::hash<std::string_view> {
    using is_transparent = void;
  };

  // As read(). `too_large`: the offset of a number that the parser refuses as too large.
  Status parse(std::string_view text, std::optional<std::size_t>& too_large);
  // Records that the next value belongs to this key.
  void add_member(std::string_view key);
  std::size_t number_of(std::string_view key, std::size_t guess) const;

  std::vector<std::string> keys_;
  JsonLimits limits_;
  std::unordered_map<std::string, std::size_t, Hash, std::equal_to<>> numbers_;  // indexes of keys_
  std::string text_;  // copy of the text; the parser replaces escapes in it
  std::vector<JsonValue> values_;
  std::vector<std::size_t> places_;  // in values_, by key; 0, the place of the object, is none
  // Order of the keys in the last text: most writers keep the same order.
  std::vector<std::size_t> order_;
  std::size_t members_ = 0;
  std::optional<std::string_view> unknown_;
};

}  // namespace paddle
