// Puts the lines of several logs into one order of time. Pure: lines in, lines out.
#pragma once

#include <cstdint>
#include <deque>
#include <limits>
#include <optional>
#include <vector>

#include "cli/logs/reader.h"

namespace paddle::cli {

constexpr std::int64_t kNothingYet = std::numeric_limits<std::int64_t>::min();

class LogMerge {
 public:
  struct Line {
    std::size_t source = 0;
    LogLine line;
  };

  // first_unix_ms: for lines before the first of a known time.
  std::size_t add_source(std::int64_t first_unix_ms);
  // Lines of one log, in its order. A line without a time has that of the line before it, and one
  // that is earlier too: within a log the order stays.
  void add(std::size_t source, std::vector<LogLine> lines);
  void close(std::size_t source) { sources_[source].closed = true; }

  std::size_t waiting(std::size_t source) const { return sources_[source].lines.size(); }
  bool is_closed(std::size_t source) const { return sources_[source].closed; }

  // The earliest line, once no other log can have an earlier one: each that is not closed has a
  // line waiting, or all have given every line up to `complete_until`.
  std::optional<Line> next(std::int64_t complete_until = kNothingYet);

 private:
  struct Source {
    std::deque<LogLine> lines;
    std::int64_t last_unix_ms = 0;
    bool closed = false;
  };
  std::vector<Source> sources_;
};

}  // namespace paddle::cli
