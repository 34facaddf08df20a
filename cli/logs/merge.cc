#include "cli/logs/merge.h"

#include <algorithm>
#include <utility>

namespace paddle::cli {

std::size_t LogMerge::add_source(std::int64_t first_unix_ms) {
  sources_.push_back({{}, first_unix_ms, false});
  return sources_.size() - 1;
}

void LogMerge::add(std::size_t source, std::vector<LogLine> lines) {
  Source& into = sources_[source];
  for (LogLine& line : lines) {
    line.unix_ms = std::max(line.unix_ms, into.last_unix_ms);
    into.last_unix_ms = line.unix_ms;
    into.lines.push_back(std::move(line));
  }
}

std::optional<LogMerge::Line> LogMerge::next(std::int64_t complete_until) {
  std::optional<std::size_t> first;
  bool all_spoke = true;
  for (std::size_t i = 0; i < sources_.size(); ++i) {
    const Source& source = sources_[i];
    if (source.lines.empty()) {
      all_spoke = all_spoke && source.closed;
    } else if (!first || source.lines.front().unix_ms < sources_[*first].lines.front().unix_ms) {
      first = i;
    }
  }
  if (!first) return std::nullopt;
  std::deque<LogLine>& lines = sources_[*first].lines;
  if (!all_spoke && lines.front().unix_ms > complete_until) return std::nullopt;
  Line found{*first, std::move(lines.front())};
  lines.pop_front();
  return found;
}

}  // namespace paddle::cli
