#include "cli/json.h"

#include <charconv>

#include <fmt/format.h>

#include "engine/base/text.h"

namespace paddle::cli {
namespace {

// The text after "key": with leading blanks removed, or nothing.
std::optional<std::string_view> field(std::string_view object, std::string_view key) {
  const std::string quoted = fmt::format("\"{}\"", key);
  std::size_t at = object.find(quoted);
  while (at != std::string_view::npos) {
    std::string_view rest = object.substr(at + quoted.size());
    while (!rest.empty() && rest.front() == ' ') rest.remove_prefix(1);
    if (!rest.empty() && rest.front() == ':') {
      rest.remove_prefix(1);
      while (!rest.empty() && rest.front() == ' ') rest.remove_prefix(1);
      return rest;
    }
    at = object.find(quoted, at + 1);
  }
  return std::nullopt;
}

}  // namespace

std::string json_string(std::string_view text) {
  std::string out = "\"";
  for (std::size_t begin = 0; begin < text.size();) {
    const char c = text[begin];
    if (c == '\n' || c == '\t' || c == '"' || c == '\\') {
      out += c == '\n' ? "\\n" : c == '\t' ? "\\t" : c == '"' ? "\\\"" : "\\\\";
      ++begin;
      continue;
    }
    std::size_t end = text.find_first_of("\n\t\"\\", begin);
    if (end == std::string_view::npos) end = text.size();
    // escape_control writes a backslash for control bytes; JSON needs that backslash doubled.
    for (const char e : escape_control(text.substr(begin, end - begin))) {
      if (e == '\\') out += '\\';
      out += e;
    }
    begin = end;
  }
  return out + '"';
}

std::string json_object(const JsonFields& fields) {
  std::string out = "{";
  for (const auto& [key, value] : fields) {
    if (out.size() > 1) out += ", ";
    out += json_string(key) + ": " + value;
  }
  return out + "}";
}

std::string json_array(const std::vector<std::string>& values) {
  return fmt::format("[{}]", fmt::join(values, ", "));
}

std::optional<double> json_number_field(std::string_view object, std::string_view key) {
  const auto text = field(object, key);
  if (!text) return std::nullopt;
  double value = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (error != std::errc() || end == text->data()) return std::nullopt;
  return value;
}

std::optional<std::string> json_text_field(std::string_view object, std::string_view key) {
  const auto text = field(object, key);
  if (!text || text->empty() || text->front() != '"') return std::nullopt;
  const auto end = text->find('"', 1);
  if (end == std::string_view::npos) return std::nullopt;
  return std::string(text->substr(1, end - 1));
}

}  // namespace paddle::cli
