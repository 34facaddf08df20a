// Times and durations as text.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace paddle::cli {

// Milliseconds of "90" (seconds), "90s", "10m", "2h" or "1d"; nothing for another text.
std::optional<std::int64_t> parse_span(std::string_view text);
// Unix milliseconds of a time such as "2026-01-31T12:00:00Z" (a date alone begins at midnight,
// UTC), or of the time that is such a span before `now_unix_ms`. kUsage: any other text.
Result<std::int64_t> parse_since(std::string_view text, std::int64_t now_unix_ms);

std::string utc_text(std::int64_t unix_ms);        // "2026-01-31 12:00:00"
std::string span_text(std::int64_t milliseconds);  // "0.4s", "12s", "3m20s", "5h07m", "2d03h"

}  // namespace paddle::cli
