// Text helpers: escaping, letter case, suggestions, hexadecimal, and the names of passes.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace paddle {

// Text that cannot control a terminal: control characters (C0, C1, DEL), direction marks, line
// breaks, tags and bytes that are not UTF-8 become \xNN.
std::string escape_control(std::string_view text);
// escape_control() for a text of several lines: keeps each '\n'.
std::string escape_lines(std::string_view text);

// "1.5 GB", "12 kB".
std::string human_bytes(std::uint64_t bytes);

// With 'a' to 'z' in place of 'A' to 'Z'.
std::string lower_case(std::string_view text);

// The candidate nearest to `word`, whatever the case of letters, within edit distance 3 and under
// half its length, or "": "did you mean ...?".
std::string nearest(std::string_view word, std::span<const std::string_view> candidates);

// "pass 2 of 10 (pass-00001)"; if `passes` is 0 (not known), "pass 2 (pass-00001)". `pass` counts
// from 0, as in the snapshot's name; the text for people counts from 1.
std::string pass_words(std::uint64_t pass, std::uint64_t passes = 0);

// An environment variable's name: letters, digits and '_', not beginning with a digit.
bool is_variable_name(std::string_view name);

std::string to_hex(std::span<const std::byte> bytes);

}  // namespace paddle
