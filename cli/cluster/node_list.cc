#include "cli/cluster/node_list.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <set>

#include <fmt/format.h>

#include "base/text.h"
#include "base/text_file.h"
#include "remote/launcher/ssh_target.h"

namespace paddle::cli {
namespace {

constexpr std::size_t kDigitsMax = 18;  // in a number of a range
constexpr std::size_t kPatternShown = 80;
constexpr std::size_t kNameBytesMax = 512;  // in a range, which may have thousands of names

bool parse_number(std::string_view text, std::uint64_t& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && !text.empty() &&
         text.size() <= kDigitsMax;
}

// Reads one pattern from left to right: text, then a pair of brackets, then text, and so on.
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

  // Appends every number of the brackets that begin here to every name.
  Status take_brackets(std::vector<std::string>& names) {
    const std::size_t close = text_.find(']', at_);
    if (close == text_.npos) return refuse("'[' without ']'");
    const std::string_view inside = text_.substr(at_ + 1, close - at_ - 1);
    if (is_ipv6(inside)) {
      for (std::string& name : names) name += text_.substr(at_, close + 1 - at_);
      at_ = close + 1;
      return {};
    }
    in_addr ignored{};
    if (::inet_pton(AF_INET, std::string(inside).c_str(), &ignored) == 1) {
      Error error = refuse("only an IPv6 address is in '[]'");
      error.hint =
          fmt::format("write {}{}{}", text_.substr(0, at_), inside, text_.substr(close + 1));
      return error;
    }
    if (inside.find(':') != inside.npos) return refuse("the text in '[]' is not an IPv6 address");
    if (inside.find('[') != inside.npos) return refuse("a '[' is inside another '['");
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

  // Reads one item of a range: "7", "01-16" or "0-10/2".
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

// Hostfiles and lists of hosts.

constexpr std::uint32_t kSlotsMax = 4096;
constexpr std::uint32_t kSshPortMax = 65535;
// The most slots that may follow a ':'. A larger number is probably a port of sshd.
constexpr std::uint32_t kColonSlotsMax = 1023;
constexpr std::size_t kHostsMax = kRangeNamesMax;
constexpr std::string_view kBlanks = " \t\r";
constexpr std::size_t kShownBytes = 80;

// Where hosts are written, for errors: "hosts:2" or "--hosts", with a hint on how to write them.
struct Place {
  std::string name;
  const char* hint;

  Error bad(std::string_view what, const std::string& why) const {
    return {Errc::kUsage,
            fmt::format("{}: '{}' {}", name, escape_control(what.substr(0, kShownBytes)), why),
            hint};
  }
};

std::string_view next_word(std::string_view& rest) {
  rest.remove_prefix(std::min(rest.find_first_not_of(kBlanks), rest.size()));
  const std::string_view word = rest.substr(0, rest.find_first_of(kBlanks));
  rest.remove_prefix(word.size());
  return word;
}

bool parse_number(std::string_view text, std::uint32_t max, std::uint32_t& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() && number > 0 && number <= max;
}

// Checked strictly, because the host goes into a cluster file.
bool is_host(std::string_view host) {
  if (is_ipv6(host)) return true;
  return !host.empty() && host.front() != '-' && std::ranges::all_of(host, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '-' || c == '_';
  });
}

// The error for a number after the ':' of a host. Its hint shows how to write what the user may
// mean.
Error bad_number(std::string_view word, const HostWord& split, const Place& place) {
  if (split.is_url) return place.bad(word, "has no valid sshd port after the ':'");
  std::uint32_t port = 0;
  Error error = place.bad(
      word, fmt::format("needs a number of slots from 1 to {} after the ':'", kColonSlotsMax));
  if (std::ranges::count(word, ':') > 1 && !word.starts_with('[') && word.find("@[") == word.npos) {
    error.hint += "; an IPv6 address has up to eight groups of hexadecimal digits";
  } else if (parse_number(split.number, kSshPortMax, port)) {
    error.hint = fmt::format(
        "for an sshd port, write ssh://{}; for this number of slots, write {} slots={} in a "
        "hostfile",
        escape_control(word), escape_control(split.host), port);
  }
  return error;
}

// Parses "host", "user@host", "host:8" or "ssh://user@host:2222".
Result<HostfileEntry> parse_host(std::string_view word, const Place& place) {
  const HostWord split = split_host(word);
  HostfileEntry entry;
  entry.host = split.host;
  entry.user = split.user;
  if (word.find('@') != word.npos && !remote::check_user_name(entry.user))
    return place.bad(word, "has an invalid user name");
  std::uint32_t number = 0;
  if (split.has_number &&
      !parse_number(split.number, split.is_url ? kSshPortMax : kColonSlotsMax, number)) {
    return bad_number(word, split, place);
  }
  entry.colon_slots = split.has_number && !split.is_url;
  if (split.is_url) {
    entry.ssh_port = static_cast<std::uint16_t>(number);
  } else {
    entry.slots = number;
  }
  if (!is_host(entry.host)) return place.bad(word, "is not a host name");
  return entry;
}

// A line without the blanks around each '=': "slots = 4" means slots=4.
std::string with_joined_pairs(std::string_view line) {
  std::string joined;
  for (const char c : line) {
    if (c == '=') joined.resize(joined.find_last_not_of(kBlanks) + 1);
    const bool follows = joined.ends_with('=') && kBlanks.find(c) != kBlanks.npos;
    if (!follows) joined.push_back(c);
  }
  return joined;
}

// Reads one "key=value" after the host into `entry`.
Status take_pair(std::string_view word, const Place& place, HostfileEntry& entry) {
  constexpr std::array<std::string_view, 6> kSlots{"slots", "cpu", "cpus", "count", "np", "slot"};
  constexpr std::array<std::string_view, 8> kLimits{"max_slots", "max-slots", "slots_max",
                                                    "slots-max", "max_cpu",   "cpu_max",
                                                    "max_count", "count_max"};
  constexpr std::array<std::string_view, 4> kUsers{"user", "username", "user_name", "user-name"};
  const std::string_view key = word.substr(0, word.find('='));
  const std::string_view value = word.substr(std::min(key.size() + 1, word.size()));
  if (key.size() == word.size()) return place.bad(word, "is not a key=number pair");
  if (std::ranges::find(kUsers, key) != kUsers.end()) {
    entry.user = value;
    return remote::check_user_name(value) ? Status() : place.bad(word, "has an invalid user name");
  }
  std::uint32_t number = 0;
  if (key == "port") {
    if (!parse_number(value, kSshPortMax, number)) return place.bad(word, "is not an sshd port");
    entry.ssh_port = static_cast<std::uint16_t>(number);
    return {};
  }
  const bool is_slots = std::ranges::find(kSlots, key) != kSlots.end();
  if (!is_slots && std::ranges::find(kLimits, key) == kLimits.end())
    return place.bad(word, "has an unknown key");
  if (!parse_number(value, kSlotsMax, number))
    return place.bad(word, fmt::format("needs a number from 1 to {}", kSlotsMax));
  if (is_slots) entry.slots = number;
  return {};
}

// Reads the words after the host: key=number pairs, or one number of slots. Grid Engine writes a
// queue and processors after the number; they are ignored.
Status take_rest(std::string_view rest, const Place& place, HostfileEntry& entry) {
  std::vector<std::string_view> words;
  for (std::string_view word = next_word(rest); !word.empty(); word = next_word(rest))
    words.push_back(word);
  constexpr std::size_t kWordsOfGridEngine = 3;
  std::uint32_t number = 0;
  if (!words.empty() && parse_number(words.front(), kSlotsMax, number) &&
      (words.size() == 1 || words.size() == kWordsOfGridEngine)) {
    entry.slots = number;
    return {};
  }
  for (const std::string_view word : words) PADDLE_TRY_STATUS(take_pair(word, place, entry));
  return {};
}

// Whether the word is the head of a section in an Ansible inventory: "[gpu]" or "[gpu:vars]".
bool is_section(std::string_view word) {
  return word.size() > 2 && word.starts_with('[') && word.ends_with(']') &&
         !is_ipv6(word.substr(1, word.size() - 2)) &&
         std::ranges::any_of(word, [](char c) { return c >= 'a' && c <= 'z'; });
}

// Parses all entries of a line: "node[01-03] slots=8", "node1:8,node2:8".
Result<std::vector<HostfileEntry>> parse_line(std::string_view line, const Place& place) {
  const std::string joined = with_joined_pairs(line);
  std::string_view rest = joined;
  const std::string_view hosts = next_word(rest);
  std::vector<HostfileEntry> entries;
  if (is_section(hosts)) {
    Error error = place.bad(hosts, "is the head of a section, not a host");
    error.hint = "write only hosts, one on each line: node1 user=me port=2222";
    return error;
  }
  for (const std::string& part : split_list(hosts)) {
    const auto names = expand_range(part);
    if (!names) return Error(names.error()).with(place.name);
    for (const std::string& name : *names) {
      PADDLE_TRY(entries.emplace_back(), parse_host(name, place));
      PADDLE_TRY_STATUS(take_rest(rest, place, entries.back()));
    }
  }
  return entries;
}

// Identifies a machine. One host with two ports of sshd is two machines behind one address.
std::string key_of(const HostfileEntry& entry) {
  return fmt::format("{} {}", entry.host, entry.ssh_port);
}

// Merges another line about the same host into `first`.
Status join(const HostfileEntry& again, const Place& place, HostfileEntry& first) {
  if (!again.user.empty() && !first.user.empty() && again.user != first.user) {
    return place.bad(again.host,
                     fmt::format("has user {} here, but user {} above", again.user, first.user));
  }
  if (first.user.empty()) first.user = again.user;
  first.slots = std::min(std::max(first.slots, 1U) + std::max(again.slots, 1U), kSlotsMax);
  return {};
}

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
      return Error{Errc::kUsage, fmt::format("the list has over {} names", kRangeNamesMax), ""};
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

Result<std::vector<HostfileEntry>> parse_hostfile(std::string_view bytes, const std::string& file) {
  if (is_utf16(bytes)) {
    return Error{Errc::kUsage, file + " is in UTF-16", "save it as UTF-8"};
  }
  const std::string lines = text_of_lines(std::string(bytes));
  std::string_view text = lines;
  std::vector<HostfileEntry> entries;
  std::map<std::string, std::size_t, std::less<>> places;  // index in `entries` by host and port
  for (std::size_t number = 1; !text.empty(); ++number) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    line = line.substr(0, line.find('#'));
    if (line.find_first_not_of(kBlanks) == line.npos) continue;
    const Place place{fmt::format("{}:{}", file, number),
                      "a line is: host, host slots=8, or host:8; '#' begins a comment"};
    PADDLE_TRY(auto some, parse_line(line, place));
    for (HostfileEntry& entry : some) {
      const auto [known, is_new] = places.emplace(key_of(entry), entries.size());
      if (is_new) {
        if (entries.size() == kHostsMax)
          return Error{Errc::kUsage, fmt::format("{}: over {} hosts", file, kHostsMax), ""};
        entries.push_back(std::move(entry));
        continue;
      }
      PADDLE_TRY_STATUS(join(entry, place, entries[known->second]));
    }
  }
  if (entries.empty()) {
    return Error{Errc::kUsage, file + " has no host", "write one host on each line: node1 slots=8"};
  }
  return entries;
}

Result<std::vector<HostfileEntry>> parse_host_list(std::string_view list,
                                                   const std::string& option) {
  const Place place{option,
                    "write n1,n2,n3 or node[01-04,07].lab; me@n1 sets a user, n1:8 the number of "
                    "slots, [2001:db8::1]:8 that of an IPv6 address, ssh://n1:2222 an sshd port"};
  std::vector<HostfileEntry> entries;
  std::set<std::string, std::less<>> known;
  for (std::string_view rest = list;;) {
    const std::size_t size = list_part(rest);
    std::string_view words = rest.substr(0, size);
    const std::string_view term = words;
    const std::string_view word = next_word(words);
    if (!next_word(words).empty()) return place.bad(term, "is not a host name");
    const auto names = expand_range(std::string(word));
    if (!names) return Error(names.error()).with(option);
    for (const std::string& name : *names) {
      PADDLE_TRY(HostfileEntry entry, parse_host(name, place));
      if (!known.insert(key_of(entry)).second) return place.bad(entry.host, "is named twice");
      if (entries.size() == kHostsMax)
        return Error{Errc::kUsage, fmt::format("{}: over {} hosts", option, kHostsMax), ""};
      entries.push_back(std::move(entry));
    }
    if (size == rest.size()) return entries;
    rest.remove_prefix(size + 1);
    if (rest.find_first_not_of(kBlanks) == rest.npos) return entries;  // "n1,n2,"
  }
}

}  // namespace paddle::cli
