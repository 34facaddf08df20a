// Reads one flat JSON object, as a line of metrics.jsonl is. Nodes wrote it: anything may stand
// there.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace paddle::cli {

constexpr std::size_t kJsonFieldsMax = 4096;  // of an object; values of a list

using JsonValue = std::variant<std::monostate,  // null, true or false
                               double, std::string, std::vector<double>>;
struct JsonField {
  std::string key;
  JsonValue value;
};

// Nothing unless the text is one object of strings, numbers, constants and lists of numbers.
std::optional<std::vector<JsonField>> read_flat_object(std::string_view text);

}  // namespace paddle::cli
