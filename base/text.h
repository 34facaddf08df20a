// Small text helpers every room needs.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace paddle {

// Control characters (C0, C1, DEL), those of writing direction and of line breaks, tags, and bytes
// that are not UTF-8 as \xNN; what nodes send must not paint a terminal.
std::string escape_control(std::string_view text);

// The candidate nearest to `word` within edit distance 3 and under half its length, or "": "did you
// mean ...?".
std::string nearest(std::string_view word, std::span<const std::string_view> candidates);

std::string to_hex(std::span<const std::byte> bytes);

}  // namespace paddle
