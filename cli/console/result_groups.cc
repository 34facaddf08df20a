#include "cli/console/result_groups.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <tuple>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace paddle::cli {
namespace {

constexpr std::size_t kDigitsMax = 18;  // digits of a folded number, which fits in 64 bits

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// A name split around its last number. `width` is the digits of a zero-padded number, else 0:
// padded numbers fold only with numbers of their width.
struct Numbered {
  std::string head, tail;
  std::size_t width = 0;
  std::uint64_t number = 0;
};

bool split(const std::string& name, Numbered& parts) {
  // The number of a host is in its first label, not in its domain.
  const std::size_t label = std::min(name.find('.'), name.size());
  std::size_t end = label;
  while (end > 0 && !is_digit(name[end - 1])) --end;
  std::size_t begin = end;
  while (begin > 0 && is_digit(name[begin - 1])) --begin;
  if (begin == end || end - begin > kDigitsMax) return false;
  const std::string digits = name.substr(begin, end - begin);
  parts.head = name.substr(0, begin);
  parts.tail = name.substr(end);
  parts.number = std::stoull(digits);
  // 09 and 10 belong together, and so do 9 and 10; 9 and 010 do not.
  parts.width = digits.size() > 1 && digits[0] == '0' ? digits.size() : 0;
  return true;
}

std::string digits_of(const Numbered& parts, std::uint64_t number) {
  return fmt::format("{:0{}}", number, parts.width);
}

struct Family {
  Numbered like;
  std::vector<std::uint64_t> numbers;
};

std::string fold(Family family) {
  std::vector<std::uint64_t>& numbers = family.numbers;
  std::ranges::sort(numbers);
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  const Numbered& like = family.like;
  if (numbers.size() == 1) return like.head + digits_of(like, numbers[0]) + like.tail;
  std::vector<std::string> ranges;
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t last = i;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    std::string range = digits_of(like, numbers[i]);
    if (last > i) range += "-" + digits_of(like, numbers[last]);
    ranges.push_back(std::move(range));
    i = last + 1;
  }
  return fmt::format("{}[{}]{}", like.head, fmt::join(ranges, ","), like.tail);
}

}  // namespace

std::vector<ResultGroup> group_results(const std::vector<NodeResult>& results) {
  std::vector<ResultGroup> groups;
  std::map<std::string_view, std::size_t> known;
  for (const NodeResult& result : results) {
    const auto [at, is_new] = known.emplace(result.text, groups.size());
    if (is_new) groups.push_back({{}, result.text});
    groups[at->second].nodes.push_back(result.node);
  }
  return groups;
}

std::string fold_names(const std::vector<std::string>& names) {
  using Key = std::tuple<std::string, std::string, std::size_t>;
  std::map<Key, std::size_t> widths;  // an unpadded 10 joins padded numbers of two digits
  for (const std::string& name : names) {
    Numbered parts;
    if (split(name, parts) && parts.width > 0) ++widths[{parts.head, parts.tail, parts.width}];
  }
  std::vector<std::pair<std::string, Family>> found;  // a name without number, or a family
  std::map<Key, std::size_t> families;
  for (const std::string& name : names) {
    Numbered parts;
    if (!split(name, parts)) {
      found.push_back({name, {}});
      continue;
    }
    if (parts.width == 0) {
      const std::size_t size = name.size() - parts.head.size() - parts.tail.size();
      if (widths.contains({parts.head, parts.tail, size})) parts.width = size;
    }
    const auto [at, is_new] =
        families.emplace(Key{parts.head, parts.tail, parts.width}, found.size());
    if (is_new) found.push_back({"", {parts, {}}});
    found[at->second].second.numbers.push_back(parts.number);
  }
  std::vector<std::string> shown;
  for (auto& [name, family] : found)
    shown.push_back(family.numbers.empty() ? name : fold(std::move(family)));
  return fmt::format("{}", fmt::join(shown, ", "));
}

}  // namespace paddle::cli
