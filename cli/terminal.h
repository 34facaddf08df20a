// A question to the person at the terminal.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace paddle::cli {

constexpr std::size_t kAnswerBytesMax = 1024;

// One line from stdin, asked on stderr; nothing when one of them is no terminal, at its end, when
// the line is over kAnswerBytesMax, or when wake_fd becomes readable (Ctrl-C). secret: no echo.
std::optional<std::string> ask_on_terminal(std::string_view question, bool secret, int wake_fd);

}  // namespace paddle::cli
