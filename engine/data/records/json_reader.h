// Reader of JSON objects whose keys are known: records, one a line, and requests.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/data/records/json_value.h"
#include "engine/data/records/record_block.h"

namespace paddle::data {

constexpr std::size_t kJsonDepthMax = 64;  // the parser calls itself for each

// It reads into the memory of the text before.
class JsonReader {
 public:
  // The keys are different ones.
  explicit JsonReader(std::vector<std::string> keys);

  // kData: the text is no JSON object, or is nested deeper than that. The values hold until trim()
  // or the next read.
  Status read(std::string_view text);
  // Frees the memory of a text that was much larger than most.
  void trim();

  const std::vector<std::string>& keys() const { return keys_; }
  // The value of the key of this number, the last one if there are more; nullptr: there is none.
  const JsonValue* find(std::size_t key) const {
    return places_[key] == 0 ? nullptr : &values_[places_[key]];
  }
  // The first key in the text that is none of the keys.
  const std::optional<std::string_view>& unknown() const { return unknown_; }

 private:
  class Events;
  // Looks up a text without a copy of it.
  struct Hash : std::hash<std::string_view> {
    using is_transparent = void;
  };

  // As read(); `too_large` is where a number stands that the parser takes for too large.
  Status parse(std::string_view text, std::optional<std::size_t>& too_large);
  // The next value is of this key.
  void add_member(std::string_view key);
  std::size_t number_of(std::string_view key, std::size_t guess) const;

  std::vector<std::string> keys_;
  std::unordered_map<std::string, std::size_t, Hash, std::equal_to<>> numbers_;  // of the keys
  std::string text_;  // where escapes give way to what they mean
  std::vector<JsonValue> values_;
  std::vector<std::size_t>
      places_;  // of the values, by key; 0: none, as the object itself is there
  // The keys of the text before in their order: most writers keep it.
  std::vector<std::size_t> order_;
  std::size_t members_ = 0;
  std::optional<std::string_view> unknown_;
};

// Appends the floats of a slot: `width` numbers in a list, or one alone; true is 1 and false 0.
// kData: the value is something else, or not finite.
Status append_json_floats(std::string_view slot, const JsonValue& value, std::uint32_t width,
                          RecordBlock& block);

}  // namespace paddle::data
