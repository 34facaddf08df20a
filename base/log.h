// One-line logs on stderr: "I0317 17:26:12.388079 trainer-0] text" (glog's prefix, as in v0.10).
#pragma once

#include <string>
#include <string_view>

#include <fmt/format.h>

namespace paddle {

enum class LogLevel : char { kInfo = 'I', kWarning = 'W', kError = 'E' };

// The name in each line, e.g. "pserver-1"; set once at start-up.
void set_log_name(std::string name);
// Writes one line with one write(2); control characters are escaped.
void log_line(LogLevel level, std::string_view text);

// Writes one line without level, time and name, for a person at a terminal.
void log_plain(std::string_view text);

template <class... Args>
void log_info(fmt::format_string<Args...> format, Args&&... args) {
  log_line(LogLevel::kInfo, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void log_warning(fmt::format_string<Args...> format, Args&&... args) {
  log_line(LogLevel::kWarning, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void log_error(fmt::format_string<Args...> format, Args&&... args) {
  log_line(LogLevel::kError, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace paddle
