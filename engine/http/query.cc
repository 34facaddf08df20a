#include "engine/http/query.h"

#include <algorithm>
#include <charconv>

#include "base/text_file.h"

namespace paddle::http {
namespace {

constexpr std::size_t kEscapeBytes = 3;  // "%20"

std::optional<std::string> decoded(std::string_view text) {
  std::string plain;
  for (; !text.empty(); text.remove_prefix(1)) {
    if (text.front() != '%') {
      plain += text.front() == '+' ? ' ' : text.front();
      continue;
    }
    unsigned byte = 0;
    const std::string_view digits = text.substr(1, kEscapeBytes - 1);
    const char* const end = digits.data() + digits.size();
    const auto [rest, error] = std::from_chars(digits.data(), end, byte, 16);
    if (digits.size() < kEscapeBytes - 1 || error != std::errc() || rest != end)
      return std::nullopt;
    plain += static_cast<char>(byte);
    text.remove_prefix(kEscapeBytes - 1);
  }
  const auto is_control = [](unsigned char c) { return c < 0x20 || c == 0x7f; };
  if (std::ranges::any_of(plain, is_control) || !is_utf8(plain)) return std::nullopt;
  return plain;
}

}  // namespace

std::optional<Fields> query_values(std::string_view query) {
  Fields values;
  while (!query.empty()) {
    const std::size_t end = std::min(query.find('&'), query.size());
    const std::string_view one = query.substr(0, end);
    query.remove_prefix(std::min(end + 1, query.size()));
    if (one.empty()) continue;
    const std::size_t equals = std::min(one.find('='), one.size());
    auto name = decoded(one.substr(0, equals));
    auto value = decoded(one.substr(std::min(equals + 1, one.size())));
    if (!name || !value) return std::nullopt;
    if (std::ranges::find(values, *name, &Fields::value_type::first) != values.end())
      return std::nullopt;
    values.emplace_back(*std::move(name), *std::move(value));
  }
  return values;
}

}  // namespace paddle::http
