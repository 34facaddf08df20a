#include "base/json.h"

#include <cmath>

namespace paddle {

std::string json_text(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      quoted += {'\\', c};
    } else if (c == '\n' || c == '\t') {
      quoted += c == '\n' ? "\\n" : "\\t";
    } else if (static_cast<unsigned char>(c) < 0x20) {
      quoted += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      quoted += c;
    }
  }
  return quoted + '"';
}

std::string json_text(double value) {
  return std::isfinite(value) ? fmt::format("{:.9g}", value) : "null";
}

std::string json_text(std::span<const std::uint64_t> values) {
  JsonArray array;
  for (const std::uint64_t value : values) array.add(value);
  return array.text();
}

JsonObject& JsonObject::append(std::string_view fields) {
  if (!fields_.empty() && !fields.empty()) fields_ += ',';
  fields_ += fields;
  return *this;
}

}  // namespace paddle
