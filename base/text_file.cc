#include "base/text_file.h"

#include <algorithm>

namespace paddle {

std::string_view without_byte_order_mark(std::string_view text) {
  constexpr std::string_view kMark = "\xef\xbb\xbf";
  if (text.starts_with(kMark)) text.remove_prefix(kMark.size());
  return text;
}

std::string text_of_lines(std::string text) {
  text.erase(0, text.size() - without_byte_order_mark(text).size());
  if (text.find('\n') == std::string::npos) std::ranges::replace(text, '\r', '\n');
  return text;
}

bool is_utf16(std::string_view text) {
  return text.starts_with("\xff\xfe") || text.starts_with("\xfe\xff");
}

bool is_utf8(std::string_view text) {
  std::size_t at = 0;
  const auto byte = [&](std::size_t i) {
    return at + i < text.size() ? static_cast<unsigned char>(text[at + i]) : 0U;
  };
  while (at < text.size()) {
    const unsigned lead = byte(0);
    if (lead < 0x80) {
      ++at;
      continue;
    }
    const std::size_t length = lead < 0xc2 ? 0 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
    // These bounds exclude overlong forms, halves of a surrogate pair and points above U+10FFFF.
    const unsigned least = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
    const unsigned most = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
    if (length == 0 || lead > 0xf4 || byte(1) < least || byte(1) > most) return false;
    for (std::size_t i = 2; i < length; ++i) {
      if ((byte(i) & 0xc0U) != 0x80) return false;
    }
    at += length;
  }
  return true;
}

}  // namespace paddle
