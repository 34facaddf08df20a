// Keeps some of the lines of metrics of a process that writes without end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cli/report/record.h"

namespace paddle::cli {

struct MetricsLimits {
  std::size_t points = 2'000;      // log points
  std::size_t bytes = 16U << 20U;  // of all lines in memory, roughly
};

// Adds lines to ProcessRecord::metrics and to its totals. Tests, snapshots and ends of passes stay.
// Log points are in groups of neighbours, each of which keeps its lowest and its highest cost; the
// groups are joined in pairs whenever there are too many points. A pserver's port keeps its newest
// line. If the limit on bytes is still exceeded, the oldest lines go.
class KeptMetrics {
 public:
  explicit KeptMetrics(MetricsLimits limits) : limits_(limits) {}

  // `record`: always the same, and changed by nothing else.
  void add(MetricsLine line, ProcessRecord& record);
  // Bytes in memory, roughly.
  std::size_t bytes() const { return bytes_; }

 private:
  void add_point(MetricsLine line, std::vector<MetricsLine>& lines);
  void replace_port(MetricsLine line, std::vector<MetricsLine>& lines);
  void append(MetricsLine line, std::uint32_t group, std::vector<MetricsLine>& lines);
  // Removes the line at an index of open_ and from `lines`.
  void drop_open(std::size_t which, std::vector<MetricsLine>& lines);
  void merge_groups(std::vector<MetricsLine>& lines);
  void drop_oldest(std::vector<MetricsLine>& lines);

  MetricsLimits limits_;
  // The group of each line of the record; 0: it is in none, and stays.
  std::vector<std::uint32_t> groups_;
  std::vector<std::size_t> open_;  // the lines of the last group, ascending
  std::uint32_t group_ = 0;        // the last group
  std::size_t in_group_ = 0;       // log points that were added to it
  std::size_t group_size_ = 1;     // log points
  std::size_t points_ = 0;         // lines that are in a group
  std::size_t bytes_ = 0;
};

}  // namespace paddle::cli
