#include "cli/console/base64.h"

#include <algorithm>
#include <cstdint>
#include <string_view>

namespace paddle::cli {

std::string base64(ByteSpan data) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (std::size_t i = 0; i < data.size(); i += 3) {
    const std::size_t count = std::min<std::size_t>(3, data.size() - i);
    std::uint32_t bits = 0;
    for (std::size_t k = 0; k < 3; ++k) {
      bits = (bits << 8U) | (k < count ? std::to_integer<std::uint32_t>(data[i + k]) : 0U);
    }
    for (std::size_t k = 0; k < 4; ++k) {
      out += k <= count ? kDigits[(bits >> (18 - 6 * k)) & 63U] : '=';
    }
  }
  return out;
}

}  // namespace paddle::cli
