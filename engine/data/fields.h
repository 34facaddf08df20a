// The pieces of a line of text: words, fields and numbers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "engine/base/result.h"
#include "engine/base/rng.h"

namespace paddle::data {

constexpr std::string_view kBlanks = " \t\v\f";

// Takes the next word, words being separated by blanks, off the front; "" when there is none.
inline std::string_view take_word(std::string_view& rest) {
  const auto is_blank = [](char c) { return c == ' ' || (c >= '\t' && c <= '\f' && c != '\n'); };
  std::size_t begin = 0;
  while (begin < rest.size() && is_blank(rest[begin])) ++begin;
  std::size_t end = begin;
  while (end < rest.size() && !is_blank(rest[end])) ++end;
  const std::string_view word = rest.substr(begin, end - begin);
  rest.remove_prefix(end);
  return word;
}

// Takes what comes before the next separator, or all the rest, and the separator off the front.
inline std::string_view take_field(std::string_view& rest, char separator) {
  const std::size_t end = std::min(rest.find(separator), rest.size());
  const std::string_view field = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  return field;
}

inline bool is_blank(std::string_view line) {
  return line.find_first_not_of(kBlanks) == std::string_view::npos;
}

// "the label '-1x' is not <expected>", shortened and safe to print.
Error wrong_field(std::string_view what, std::string_view text, std::string_view expected);

// A whole number from 0 to 2^64-1, or any finite float32, nothing around it. `what` names it in a
// kData message.
Status parse_id(std::string_view text, std::string_view what, std::uint64_t& id);
Status parse_float(std::string_view text, std::string_view what, float& value);

// Texts as ids: the same text in two slots makes two ids, so that slots can share a table. Stable
// over builds and machines; folded into `buckets` when that is not 0.
class SlotHash {
 public:
  SlotHash(std::string_view slot, std::uint64_t buckets)
      : slot_(stable_hash(slot)), buckets_(buckets) {}
  std::uint64_t operator()(std::string_view text) const {
    const std::uint64_t id = hash_combine(slot_, stable_hash(text));
    return buckets_ == 0 ? id : id % buckets_;
  }

 private:
  std::uint64_t slot_;
  std::uint64_t buckets_;
};

}  // namespace paddle::data
