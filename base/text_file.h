// Texts of files that people and their programs write.
#pragma once

#include <string>
#include <string_view>

namespace paddle {

// The text without the byte order mark that some editors and spreadsheets write before UTF-8.
std::string_view without_byte_order_mark(std::string_view text);
// The text of a whole file, to be split at '\n': without a byte order mark; where '\r' alone ends
// the lines, as on old Macs, each is a '\n'.
std::string text_of_lines(std::string text);
// Whether the text is UTF-8, as RFC 3629 has it.
bool is_utf8(std::string_view text);

}  // namespace paddle
