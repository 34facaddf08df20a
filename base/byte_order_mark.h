// The byte order mark that editors of Windows put at the head of a text in UTF-8.
#pragma once

#include <string_view>

namespace paddle {

inline std::string_view without_byte_order_mark(std::string_view text) {
  constexpr std::string_view kMark = "\xef\xbb\xbf";
  if (text.starts_with(kMark)) text.remove_prefix(kMark.size());
  return text;
}

}  // namespace paddle
