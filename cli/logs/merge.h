// A merge of several logs into one sequence in order of time. Pure: lines in, lines out.
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

  // first_unix_ms: the time of lines before the first with a time of its own.
  std::size_t add_source(std::int64_t first_unix_ms);
  // Appends lines of one log, whose order is kept: a line without a time, or with an earlier one
  // than the line before it, gets the time of that line.
  void add(std::size_t source, std::vector<LogLine> lines);
  void close(std::size_t source) { sources_[source].closed = true; }

  std::size_t waiting(std::size_t source) const { return sources_[source].lines.size(); }
  bool is_closed(std::size_t source) const { return sources_[source].closed; }

  // The earliest line, once no log can have an earlier one: every open log has a line waiting, or
  // all lines up to `complete_until` have been added.
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
