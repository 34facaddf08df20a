#include "cli/console/json.h"

#include <fmt/format.h>

#include "base/text.h"

namespace paddle::cli {
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

}  // namespace paddle::cli
