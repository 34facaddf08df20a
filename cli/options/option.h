// Options of a command as data. cli/command_line.cc gives them to CLI11; completions and the man
// page are made from the same rows.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace paddle::cli {

// The variable that an option is read into; its type says what the option takes.
using OptionTarget =
    std::variant<bool*, std::string*, std::uint32_t*, std::int64_t*, std::vector<std::string>*>;

// One option ("--job", "-f,--follow"), or an argument by its place ("workspace").
struct Option {
  std::string_view name;
  std::string_view help;
  OptionTarget target;
  std::string_view value_name = {};         // "FILE" and "DIR" complete paths; "": by type
  std::uint32_t min = 0, max = UINT32_MAX;  // of a number
  std::vector<std::string> choices = {};    // the only values; empty: any
  std::vector<std::string> excludes = {};   // options that may not stand beside it

  bool is_positional() const { return !name.starts_with('-'); }
  bool is_flag() const { return std::holds_alternative<bool*>(target); }
  // Null but for an option that takes any number of values.
  std::vector<std::string>* list() const {
    const auto* const values = std::get_if<std::vector<std::string>*>(&target);
    return values != nullptr ? *values : nullptr;
  }
};
using OptionList = std::vector<Option>;

}  // namespace paddle::cli
