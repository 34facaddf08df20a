// The little JSON a CLI writes (--json); cli/json_reader.h reads.
#pragma once

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

}  // namespace paddle::cli
