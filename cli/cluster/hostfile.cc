#include "cli/cluster/hostfile.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "base/text.h"
#include "cli/cluster/selection.h"

namespace paddle::cli {
namespace {

constexpr std::uint32_t kSlotsMax = 4096;
constexpr std::string_view kBlanks = " \t\r";
constexpr std::size_t kShownBytes = 80;

// The place of hosts in errors: "hosts:2" or "--hosts", and how they are written there.
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

bool parse_slots(std::string_view text, std::uint32_t& slots) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), slots);
  return error == std::errc() && end == text.data() + text.size() && slots > 0 &&
         slots <= kSlotsMax;
}

bool is_host(std::string_view host) {
  return !host.empty() && host.front() != '-' && std::ranges::all_of(host, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '-' || c == '_';
  });
}

// "host", "user@host" or "host:8".
Result<HostfileEntry> parse_host(std::string_view word, const Place& place) {
  HostfileEntry entry;
  std::string_view host = word;
  if (const auto at = host.find('@'); at != host.npos) {
    entry.user = host.substr(0, at);
    host.remove_prefix(at + 1);
    if (!is_host(entry.user)) return place.bad(word, "names no user");
  }
  if (const auto colon = host.find(':'); colon != host.npos) {
    if (!parse_slots(host.substr(colon + 1), entry.slots)) {
      Error error = place.bad(
          word, fmt::format("has no number of slots from 1 to {} after the ':'", kSlotsMax));
      error.hint += "; the port of sshd goes into the cluster file, as `port` below [ssh]";
      return error;
    }
    host = host.substr(0, colon);
  }
  if (!is_host(host)) return place.bad(word, "is no host name");
  entry.host = host;
  return entry;
}

Result<HostfileEntry> parse_line(std::string_view rest, const Place& place) {
  PADDLE_TRY(HostfileEntry entry, parse_host(next_word(rest), place));
  for (std::string_view word = next_word(rest); !word.empty(); word = next_word(rest)) {
    const std::string_view key = word.substr(0, word.find('='));
    std::string_view value = word.substr(std::min(key.size() + 1, word.size()));
    std::uint32_t count = 0;
    if (!parse_slots(value, count)) return place.bad(word, "is no key=number");
    if (key == "slots") {
      entry.slots = count;
    } else if (key != "max_slots" && key != "max-slots") {
      return place.bad(word, "is not known");
    }
  }
  return entry;
}

}  // namespace

Result<std::vector<HostfileEntry>> parse_hostfile(std::string_view text, const std::string& file) {
  std::vector<HostfileEntry> entries;
  for (std::size_t line = 1; !text.empty(); ++line) {
    std::string_view rest = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(rest.size() + 1, text.size()));
    rest = rest.substr(0, rest.find('#'));
    if (rest.find_first_not_of(kBlanks) == rest.npos) continue;
    const Place place{fmt::format("{}:{}", file, line),
                      "a line is: host, host slots=8, or host:8; '#' begins a comment"};
    PADDLE_TRY(HostfileEntry entry, parse_line(rest, place));
    const auto known = std::ranges::find(entries, entry.host, &HostfileEntry::host);
    if (known == entries.end()) {
      entries.push_back(std::move(entry));
    } else {
      known->slots = std::max(known->slots, 1U) + std::max(entry.slots, 1U);
    }
  }
  if (entries.empty()) return Error{Errc::kUsage, file + ": no host in it", ""};
  return entries;
}

Result<std::vector<HostfileEntry>> parse_host_list(std::string_view list,
                                                   const std::string& option) {
  const Place place{option,
                    "write n1,n2,n3 or node[01-04].lab; me@n1 names a user, n1:8 its slots"};
  std::vector<HostfileEntry> entries;
  for (bool more = true; more;) {
    const std::string_view term = list.substr(0, list.find(','));
    more = term.size() < list.size();
    list.remove_prefix(term.size() + (more ? 1 : 0));
    std::string_view rest = term;
    const std::string_view word = next_word(rest);
    if (!next_word(rest).empty()) return place.bad(term, "is no host name");
    PADDLE_TRY(const auto names, expand_range(std::string(word)));
    for (const std::string& name : names) {
      PADDLE_TRY(HostfileEntry entry, parse_host(name, place));
      if (std::ranges::find(entries, entry.host, &HostfileEntry::host) != entries.end())
        return place.bad(entry.host, "is named twice");
      entries.push_back(std::move(entry));
    }
  }
  return entries;
}

}  // namespace paddle::cli
