// A question to the person at the terminal.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace paddle::cli {

// One line from stdin, asked on stderr (control characters escaped); nothing when one of them is no
// terminal, at its end, when the line is over remote::kAnswerBytesMax, or when wake_fd becomes
// readable (Ctrl-C). secret: no echo.
std::optional<std::string> ask_on_terminal(std::string_view question, bool secret, int wake_fd);

}  // namespace paddle::cli
