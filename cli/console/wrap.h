// Text as the rows of a terminal: broken at spaces, and with the last of what overwrites itself.
#pragma once

#include <string>
#include <string_view>

namespace paddle::cli {

constexpr std::size_t kHelpColumns = 80;

// The line in rows of at most `columns` cells, all but the first indented by `indent`; 0: as it is.
// A longer word stays whole, and so does a command ("paddlectl ...") that fits into a row: it is
// there to be copied.
std::string wrapped_line(std::string_view line, std::size_t columns, std::size_t indent);

// Every line of the text, each going on under its own beginning or, where it has columns with two
// spaces or more between them, under the second.
std::string wrapped(std::string_view text, std::size_t columns);

// Lines as a terminal shows them in the end: a carriage return begins a line anew, so that of a
// progress bar its newest state is left, and nothing of the one of "\r\n".
std::string overwritten(std::string_view text);

}  // namespace paddle::cli
