#include "cli/cluster/hostfile.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "base/text.h"

namespace paddle::cli {
namespace {

constexpr std::uint32_t kSlotsMax = 4096;
constexpr std::string_view kBlanks = " \t\r";
constexpr std::size_t kShownBytes = 80;

Error bad(const std::string& file, std::size_t line, std::string_view what, const char* why) {
  return {
      Errc::kUsage,
      fmt::format("{}:{}: '{}' {}", file, line, escape_control(what.substr(0, kShownBytes)), why),
      "a line is: host, host slots=8, or host:8; '#' begins a comment"};
}

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

Result<HostfileEntry> parse_line(std::string_view rest, const std::string& file, std::size_t line) {
  HostfileEntry entry;
  const std::string_view first = next_word(rest);
  std::string_view host = first;
  if (const auto at = host.find('@'); at != host.npos) {
    entry.user = host.substr(0, at);
    host.remove_prefix(at + 1);
    if (!is_host(entry.user)) return bad(file, line, first, "names no user");
  }
  if (const auto colon = host.find(':'); colon != host.npos) {
    if (!parse_slots(host.substr(colon + 1), entry.slots))
      return bad(file, line, first, "has no number of slots after the ':'");
    host = host.substr(0, colon);
  }
  if (!is_host(host)) return bad(file, line, first, "is no host name");
  entry.host = host;
  for (std::string_view word = next_word(rest); !word.empty(); word = next_word(rest)) {
    const std::string_view key = word.substr(0, word.find('='));
    std::string_view value = word.substr(std::min(key.size() + 1, word.size()));
    std::uint32_t count = 0;
    if (!parse_slots(value, count)) return bad(file, line, word, "is no key=number");
    if (key == "slots") {
      entry.slots = count;
    } else if (key != "max_slots" && key != "max-slots") {
      return bad(file, line, word, "is not known");
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
    PADDLE_TRY(HostfileEntry entry, parse_line(rest, file, line));
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

}  // namespace paddle::cli
