#include "cli/console/time_text.h"

#include <time.h>

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

namespace paddle::cli {
namespace {

constexpr std::int64_t kSpansMax = 1'000'000'000;

// Milliseconds of a unit; 0 if the text is no unit.
std::int64_t unit_ms(std::string_view unit) {
  if (unit == "s" || unit.empty()) return 1000;
  if (unit == "m") return 60'000;
  if (unit == "h") return 3'600'000;
  if (unit == "d") return 86'400'000;
  return 0;
}

}  // namespace

std::optional<std::int64_t> parse_span(std::string_view text) {
  std::int64_t count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  const std::int64_t unit = unit_ms(text.substr(static_cast<std::size_t>(end - text.data())));
  if (error != std::errc() || unit == 0 || count < 0 || count > kSpansMax) return std::nullopt;
  return count * unit;
}

Result<std::int64_t> parse_since(std::string_view text, std::int64_t now_unix_ms) {
  if (const auto span = parse_span(text)) return std::max<std::int64_t>(1, now_unix_ms - *span);
  const std::string whole(text);
  for (const char* const format : {"%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%dT%H:%MZ", "%Y-%m-%d"}) {
    tm parts{};
    const char* const rest = ::strptime(whole.c_str(), format, &parts);
    if (rest != nullptr && *rest == '\0') {
      return std::max<std::int64_t>(1, std::int64_t{::timegm(&parts)} * 1000);
    }
  }
  return Error{
      Errc::kUsage, fmt::format("--since '{}' is not a time", whole),
      "write an age such as 90s, 10m, 2h or 1d, or a time such as 2026-01-31T12:00:00Z (UTC)"};
}

std::string utc_text(std::int64_t unix_ms) {
  const time_t seconds = unix_ms / 1000;
  tm parts{};
  ::gmtime_r(&seconds, &parts);
  return fmt::format("{:04}-{:02}-{:02} {:02}:{:02}:{:02}", parts.tm_year + 1900, parts.tm_mon + 1,
                     parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec);
}

std::string span_text(std::int64_t milliseconds) {
  const std::int64_t ms = std::max<std::int64_t>(0, milliseconds);
  const std::int64_t seconds = ms / 1000;
  if (seconds < 10) return fmt::format("{}.{}s", seconds, ms % 1000 / 100);
  if (seconds < 60) return fmt::format("{}s", seconds);
  if (seconds < 3600) return fmt::format("{}m{:02}s", seconds / 60, seconds % 60);
  if (seconds < 86400) return fmt::format("{}h{:02}m", seconds / 3600, seconds / 60 % 60);
  return fmt::format("{}d{:02}h", seconds / 86400, seconds / 3600 % 24);
}

}  // namespace paddle::cli
