// Text of TOML files and overrides: lines and sections for error messages, quoting.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace paddle::config {

// The line of that number, from 1, with blanks for tabs; "" past the end.
std::string line_of(std::string_view text, std::size_t number);
// "data.slot" on a line below [[data.slot]]; "" above the first table.
std::string section_at(std::string_view text, std::size_t line);
// "train" of "--set train.passes=3"; "" of another text.
std::string section_set_by(std::string_view source);
// The override `name=say "hi"` with its value as a TOML string: name="say \"hi\"".
std::string with_quoted_value(std::string_view override_text);
// "data" of "data.slot".
std::string_view outermost(std::string_view section);
// The anchor of a page's heading for the section: "dataslot".
std::string anchor_of(std::string_view section);

}  // namespace paddle::config
