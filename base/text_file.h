// Helpers for text files that people and their programs write.
#pragma once

#include <string>
#include <string_view>

namespace paddle {

// The text without the byte order mark that some editors and spreadsheets write before UTF-8.
std::string_view without_byte_order_mark(std::string_view text);
// Prepares the text of a whole file for splitting at '\n': removes a byte order mark and, if the
// text contains no '\n', replaces each '\r' (the line end of old Macs) by '\n'.
std::string text_of_lines(std::string text);
// Whether the text begins with the byte order mark of UTF-16, as some programs on Windows write it.
bool is_utf16(std::string_view text);
// Whether the text is valid UTF-8 (RFC 3629).
bool is_utf8(std::string_view text);

}  // namespace paddle
