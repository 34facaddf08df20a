// A look through TOML text before toml++ 3.3 parses it, for valid and invalid text that would abort
// that library, overflow its stack or make its behaviour undefined.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace paddle::config {

// The library frees tables and arrays recursively.
constexpr std::size_t kKeyPartsMax = 32;  // of "a.b.c": 3
constexpr std::size_t kNestedMax = 32;    // arrays and inline tables
// Each takes some 200 bytes of memory, so that a file of a megabyte takes at most 50 MB.
constexpr std::size_t kTomlPartsMax = 200000;  // keys, values and tables of a file

struct TomlFault {
  std::uint32_t line = 1;
  std::uint32_t column = 1;  // in characters, as toml++ counts
  std::string message;
};

// The first fault. Text without one may still be no TOML: the parser tells.
std::optional<TomlFault> find_toml_fault(std::string_view text);

}  // namespace paddle::config
