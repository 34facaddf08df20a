#include "base/text.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <fmt/format.h>

namespace paddle {
namespace {

constexpr char kHexDigits[] = "0123456789abcdef";

// Invisible, but changes how the text around it is shown: directions, line breaks, tags.
bool is_unseen(std::uint32_t point) {
  return point == 0x061c || point == 0x200e || point == 0x200f ||
         (point >= 0x2028 && point <= 0x202e) || (point >= 0x2066 && point <= 0x2069) ||
         point == 0xfeff || (point >= 0xe0000 && point <= 0xe007f);
}

// Length of the valid UTF-8 sequence at the front of text that is printable, or 0.
std::size_t printable_prefix(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned lead = byte(0);
  if (lead < 0x80) return lead >= 0x20 && lead != 0x7f ? 1 : 0;
  const std::size_t length = lead >= 0xf0 && lead < 0xf5 ? 4
                             : lead >= 0xe0              ? 3
                             : lead >= 0xc2              ? 2
                                                         : 0;
  if (length == 0 || lead >= 0xf5 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0U) != 0x80) return 0;
  }
  const unsigned second = byte(1);
  if (lead == 0xc2 && second < 0xa0) return 0;  // C1 control characters
  const bool overlong = (lead == 0xe0 && second < 0xa0) || (lead == 0xf0 && second < 0x90);
  const bool no_character = (lead == 0xed && second >= 0xa0) || (lead == 0xf4 && second >= 0x90);
  if (overlong || no_character) return 0;
  std::uint32_t point = lead & (0x7fU >> length);
  for (std::size_t i = 1; i < length; ++i) point = (point << 6U) | (byte(i) & 0x3fU);
  return is_unseen(point) ? 0 : length;
}

// The edit distance, or at least `limit` if it is not below that.
std::size_t edit_distance(std::string_view a, std::string_view b, std::size_t limit) {
  const std::size_t more = std::max(a.size(), b.size()) - std::min(a.size(), b.size());
  if (more >= limit) return limit;
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    std::size_t least = row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
      least = std::min(least, row[j]);
    }
    if (least >= limit) return limit;  // no later row has less
  }
  return row[b.size()];
}

std::string in_small_letters(std::string_view text) {
  std::string small(text);
  for (char& c : small) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return small;
}

}  // namespace

std::string escape_control(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    std::size_t length = text.front() == '\t' ? 1 : printable_prefix(text);
    if (length > 0) {
      out.append(text.substr(0, length));
    } else {
      const auto value = static_cast<unsigned char>(text.front());
      out.append({'\\', 'x', kHexDigits[value >> 4], kHexDigits[value & 15]});
      length = 1;
    }
    text.remove_prefix(length);
  }
  return out;
}

std::string escape_lines(std::string_view text) {
  std::string out;
  for (;;) {
    const std::size_t end = text.find('\n');
    out += escape_control(text.substr(0, end));
    if (end == std::string_view::npos) return out;
    out += '\n';
    text.remove_prefix(end + 1);
  }
}

std::string human_bytes(std::uint64_t bytes) {
  if (bytes < 1000) return fmt::format("{} B", bytes);
  auto value = static_cast<double>(bytes);
  const char* unit = "B";
  for (const char* next : {"kB", "MB", "GB", "TB", "PB"}) {
    if (value < 999.5) break;
    value /= 1000;
    unit = next;
  }
  return value < 9.95 ? fmt::format("{:.1f} {}", value, unit)
                      : fmt::format("{:.0f} {}", value, unit);
}

std::string nearest(std::string_view word, std::span<const std::string_view> candidates) {
  std::size_t best = 4;
  std::string_view found;
  const std::string small_word = in_small_letters(word);
  for (const std::string_view candidate : candidates) {
    const std::size_t distance = edit_distance(small_word, in_small_letters(candidate), best);
    if (distance < best && distance * 2 < std::max(word.size(), candidate.size()) + 1) {
      best = distance;
      found = candidate;
    }
  }
  return std::string(found);
}

std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c);
  return lower;
}

std::string pass_words(std::uint64_t pass, std::uint64_t passes) {
  return fmt::format("pass {}{} (pass-{:05})", pass + 1,
                     passes > 0 ? fmt::format(" of {}", passes) : "", pass);
}

bool is_variable_name(std::string_view name) {
  const auto is_letter = [](char c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_';
  };
  return !name.empty() && is_letter(name.front()) &&
         std::ranges::all_of(name, [&](char c) { return is_letter(c) || (c >= '0' && c <= '9'); });
}

std::string to_hex(std::span<const std::byte> bytes) {
  std::string out;
  for (const std::byte b : bytes) {
    out += kHexDigits[static_cast<unsigned>(b) >> 4];
    out += kHexDigits[static_cast<unsigned>(b) & 15U];
  }
  return out;
}

}  // namespace paddle
