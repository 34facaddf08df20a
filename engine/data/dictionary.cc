#include "engine/data/dictionary.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/fd.h"
#include "base/text.h"
#include "base/text_file.h"
#include "engine/data/fields.h"

namespace paddle::data {
namespace {

constexpr std::size_t kDictionaryBytesMax = 1U << 30U;
constexpr std::size_t kNamesShown = 10;
// Any number of records may have an unknown name, and each is compared with all names.
constexpr std::size_t kNamesComparedMax = 1000;

std::optional<double> number_of(std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);
  double number = 0;
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || at != end || std::isnan(number)) return {};
  return number;
}

}  // namespace

Result<Dictionary> Dictionary::read(const std::string& path) {
  Dictionary dictionary;
  PADDLE_TRY(std::string bytes, read_file(path, kDictionaryBytesMax));
  const std::string text = text_of_lines(std::move(bytes));
  Lines lines(text);
  std::string last;
  while (const auto line = lines.next()) {
    last = *line;
    const auto [at, is_new] = dictionary.ids_.emplace(last, dictionary.ids_.size());
    if (!is_new) {
      return Error{Errc::kData,
                   fmt::format("{}:{}: '{}' is already on line {}", path, lines.number() + 1,
                               escape_control(last), at->second + 1)};
    }
  }
  if (last != "<unk>") {
    return Error{Errc::kData, fmt::format("{}: the last line is not <unk>", path),
                 "words that are not in the dictionary get the last line's id"};
  }
  return dictionary;
}

ClassNames::ClassNames(const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    const std::uint64_t number = classes_.size();
    classes_.emplace(name, number);
    if (const auto value = number_of(name)) numbers_.emplace(*value, number);
  }
  first_names_.assign(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(
                                                         std::min(names.size(), kNamesShown)));
}

std::optional<std::uint64_t> ClassNames::find(double number) const {
  if (std::isnan(number)) return {};  // it would compare equal to any
  const auto found = numbers_.find(number);
  if (found == numbers_.end()) return {};
  return found->second;
}

std::optional<std::uint64_t> ClassNames::find(std::string_view name) const {
  if (const auto found = classes_.find(name); found != classes_.end()) return found->second;
  const auto number = numbers_.empty() ? std::nullopt : number_of(name);
  return number ? find(*number) : std::nullopt;
}

Status ClassNames::parse(std::string_view name, std::string_view what,
                         std::uint64_t& number) const {
  if (const auto found = find(name)) {
    number = *found;
    return {};
  }
  std::string near;
  if (classes_.size() <= kNamesComparedMax) {
    std::vector<std::string_view> names(classes_.size());
    for (const auto& [each, place] : classes_) names[place] = each;
    near = nearest(name, names);
  }
  const bool are_many = classes_.size() > first_names_.size();
  Error wrong = wrong_field(what, name,
                            fmt::format("one of the labels {}{}", fmt::join(first_names_, ", "),
                                        are_many ? ", ..." : ""));
  wrong.hint = near.empty() ? "all of them are in the slot's key 'labels' or, if it is "
                              "\"learned\", in statistics.json"
                            : fmt::format("did you mean '{}'?", near);
  return wrong;
}

}  // namespace paddle::data
