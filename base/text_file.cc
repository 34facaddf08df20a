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

}  // namespace paddle
