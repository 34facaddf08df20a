#include "cli/cluster/node_list.h"

#include <arpa/inet.h>

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "base/text.h"

namespace paddle::cli {
namespace {

constexpr std::size_t kDigitsMax = 18;  // of a number in a range
constexpr std::size_t kPatternShown = 80;
constexpr std::size_t kNameBytesMax = 512;  // in a range, since there may be thousands of them

bool parse_number(std::string_view text, std::uint64_t& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && !text.empty() &&
         text.size() <= kDigitsMax;
}

// Reads one pattern from left to right: text, then what stands in a pair of brackets, and so on.
class Pattern {
 public:
  explicit Pattern(std::string_view text) : text_(text) {}

  Result<std::vector<std::string>> expand() {
    if (text_.find_first_of("[]") == text_.npos)
      return std::vector<std::string>{std::string(text_)};
    if (text_.size() > kRangeBytesMax) return refuse("it is too long");
    std::vector<std::string> names{""};
    while (at_ < text_.size()) {
      const std::size_t open = std::min(text_.find('[', at_), text_.size());
      const std::string_view plain = text_.substr(at_, open - at_);
      if (plain.find(']') != plain.npos) return refuse("']' without '['");
      if (names.back().size() + plain.size() > kNameBytesMax)
        return refuse("its names are too long");
      for (std::string& name : names) name += plain;
      at_ = open;
      if (open < text_.size()) PADDLE_TRY_STATUS(take_brackets(names));
    }
    return names;
  }

 private:
  Error refuse(const std::string& why) const {
    return {
        Errc::kUsage,
        fmt::format("bad range in '{}': {}", escape_control(text_.substr(0, kPatternShown)), why),
        "write a range as node[01-16].lab or node[01-03,07], an IPv6 address as [2001:db8::1]"};
  }

  // Appends to each name each number of the brackets that begin here.
  Status take_brackets(std::vector<std::string>& names) {
    const std::size_t close = text_.find(']', at_);
    if (close == text_.npos) return refuse("'[' without ']'");
    const std::string_view inside = text_.substr(at_ + 1, close - at_ - 1);
    if (is_ipv6(inside)) {
      for (std::string& name : names) name += text_.substr(at_, close + 1 - at_);
      at_ = close + 1;
      return {};
    }
    if (inside.find(':') != inside.npos) return refuse("what stands in '[]' is no IPv6 address");
    if (inside.find('[') != inside.npos) return refuse("'[' within '['");
    std::vector<std::string> numbers;
    for (std::string_view rest = inside;;) {
      const std::string_view item = rest.substr(0, rest.find(','));
      PADDLE_TRY_STATUS(take_item(item, numbers));
      if (item.size() == rest.size()) break;
      rest.remove_prefix(item.size() + 1);
    }
    if (names.size() * numbers.size() > kRangeNamesMax)
      return refuse(fmt::format("over {} names", kRangeNamesMax));
    std::vector<std::string> longer;
    for (const std::string& name : names) {
      for (const std::string& number : numbers) longer.push_back(name + number);
    }
    names = std::move(longer);
    at_ = close + 1;
    return {};
  }

  // "7", "01-16" or "0-10/2".
  Status take_item(std::string_view item, std::vector<std::string>& numbers) const {
    const std::size_t slash = std::min(item.find('/'), item.size());
    std::uint64_t step = 1;
    if (slash < item.size() && (!parse_number(item.substr(slash + 1), step) || step == 0))
      return refuse("the step after '/' must be a number from 1");
    const std::string_view range = item.substr(0, slash);
    const std::string_view low = range.substr(0, range.find('-'));
    const std::string_view high = low.size() == range.size() ? low : range.substr(low.size() + 1);
    std::uint64_t first = 0;
    std::uint64_t last = 0;
    if (!parse_number(low, first) || !parse_number(high, last)) {
      return refuse(low.size() == range.size() ? "expected numbers, as in [01-03,07]"
                                               : "first and last must be numbers");
    }
    if (last < first) return refuse("last is below first");
    if ((last - first) / step >= kRangeNamesMax)
      return refuse(fmt::format("over {} names", kRangeNamesMax));
    for (std::uint64_t i = first; i <= last; i += step) {
      if (numbers.size() == kRangeNamesMax)
        return refuse(fmt::format("over {} names", kRangeNamesMax));
      numbers.push_back(fmt::format("{:0{}}", i, low.size()));
    }
    return {};
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace

Result<std::vector<std::string>> expand_range(const std::string& pattern) {
  return Pattern(pattern).expand();
}

std::size_t list_part(std::string_view list) {
  int depth = 0;
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (list[i] == '[') ++depth;
    if (list[i] == ']') --depth;
    if (list[i] == ',' && depth <= 0) return i;
  }
  return list.size();
}

std::vector<std::string> split_list(std::string_view list) {
  std::vector<std::string> parts;
  for (;;) {
    const std::size_t size = list_part(list);
    std::string_view part = list.substr(0, size);
    part.remove_prefix(std::min(part.find_first_not_of(" \t"), part.size()));
    part = part.substr(0, part.find_last_not_of(" \t") + 1);
    parts.emplace_back(part);
    if (size == list.size()) return parts;
    list.remove_prefix(size + 1);
  }
}

Result<std::vector<std::string>> expand_list(std::string_view list) {
  std::vector<std::string> names;
  for (const std::string& part : split_list(list)) {
    PADDLE_TRY(const auto some, expand_range(part));
    if (names.size() + some.size() > kRangeNamesMax) {
      return Error{Errc::kUsage, fmt::format("a list of over {} names", kRangeNamesMax), ""};
    }
    names.insert(names.end(), some.begin(), some.end());
  }
  return names;
}

bool is_ipv6(std::string_view text) {
  const std::size_t percent = text.find('%');
  if (percent != text.npos) {
    const std::string_view zone = text.substr(percent + 1);
    const bool is_plain = std::ranges::all_of(zone, [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
             c == '.' || c == '-' || c == '_';
    });
    if (zone.empty() || !is_plain) return false;
  }
  const std::string address(text.substr(0, percent));
  in6_addr ignored{};
  return ::inet_pton(AF_INET6, address.c_str(), &ignored) == 1;
}

HostWord split_host(std::string_view word) {
  HostWord split;
  constexpr std::string_view kScheme = "ssh://";
  if (word.starts_with(kScheme)) {
    split.is_url = true;
    word.remove_prefix(kScheme.size());
    if (word.ends_with('/')) word.remove_suffix(1);
  }
  if (const auto at = word.rfind('@'); at != word.npos) {
    split.user = word.substr(0, at);
    word.remove_prefix(at + 1);
  }
  std::string_view behind;  // from the ':' on
  if (const auto close = word.find(']'); word.starts_with('[') && close != word.npos) {
    behind = word.substr(close + 1);
    split.host = word.substr(1, close - 1);
    if (!is_ipv6(split.host)) split.host = word;
  } else if (is_ipv6(word)) {
    split.host = word;
  } else {
    split.host = word.substr(0, word.find(':'));
    behind = word.substr(split.host.size());
  }
  if (!behind.empty() && behind.front() == ':') {
    split.has_number = true;
    split.number = behind.substr(1);
  } else if (!behind.empty()) {
    split.host = word;
  }
  return split;
}

std::string node_name_of(std::string_view host) {
  if (!is_ipv6(host)) return std::string(host);
  std::string name(host);
  for (char& c : name) c = c == ':' || c == '%' ? '-' : c;
  return name.front() == '-' ? "ip6" + name : name;
}

}  // namespace paddle::cli
