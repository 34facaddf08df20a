// Questions to the user at the terminal.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace paddle::cli {

// Prints the question to stderr, escaped, and reads one line from stdin. Nothing when either is no
// terminal, at end of input, after more than remote::kAnswerBytesMax, or once wake_fd is readable
// (Ctrl-C). secret: no echo.
std::optional<std::string> ask_on_terminal(std::string_view question, bool secret, int wake_fd);

}  // namespace paddle::cli
