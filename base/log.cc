#include "base/log.h"

#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "base/text.h"

namespace paddle {
namespace {

std::string& log_name() {
  static std::string name = "paddle";
  return name;
}

}  // namespace

void set_log_name(std::string name) {
  log_name() = std::move(name);
}

void log_line(LogLevel level, std::string_view text) {
  timeval now{};
  ::gettimeofday(&now, nullptr);
  tm parts{};
  ::localtime_r(&now.tv_sec, &parts);
  const std::string line =
      fmt::format("{}{:02}{:02} {:02}:{:02}:{:02}.{:06} {}] {}\n", static_cast<char>(level),
                  parts.tm_mon + 1, parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec,
                  now.tv_usec, log_name(), escape_control(text));
  // One write per line keeps lines of concurrent threads whole; a failure cannot be reported
  // anywhere.
  [[maybe_unused]] const ssize_t ignored = ::write(STDERR_FILENO, line.data(), line.size());
}

void log_plain(std::string_view text) {
  const std::string line = escape_control(text) + "\n";
  [[maybe_unused]] const ssize_t ignored = ::write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace paddle
