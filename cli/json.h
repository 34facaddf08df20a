// The little JSON a CLI writes (--json) and reads back (one flat object of a metrics line).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace paddle::cli {

std::string json_string(
    std::string_view text);  // quoted and escaped; bytes that are not UTF-8 as \xNN text

// {"key": value, ...}; values are JSON already (json_string, a number, true, a nested object).
using JsonFields = std::vector<std::pair<std::string, std::string>>;
std::string json_object(const JsonFields& fields);
std::string json_array(const std::vector<std::string>& values);

// The number or the unescaped-free string of a top-level key in one flat JSON object; nothing when
// absent.
std::optional<double> json_number_field(std::string_view object, std::string_view key);
std::optional<std::string> json_text_field(std::string_view object, std::string_view key);

}  // namespace paddle::cli
