// Chooses the jobs whose whole record the dashboard keeps in memory: those that viewers look at.
#pragma once

#include <chrono>
#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"

namespace paddle::cli {

constexpr std::size_t kRecordsMax = 16;
constexpr auto kRecordStays = std::chrono::seconds(60);  // after a viewer's last question
// The number of names asked for. Beyond it, only names of jobs that a node knows are taken.
constexpr std::size_t kAskedMax = 256;

class RecordSlots {
 public:
  // Notes that a viewer asks for the job. True: no viewer has asked for it lately, so the nodes
  // should be looked at soon.
  bool ask(const std::string& job, TimePoint now);

  // The jobs of the last look.
  void know(const std::vector<std::string>& jobs);

  struct Choice {
    std::set<std::string> records;  // at most kRecordsMax
    std::set<std::string> crowded;  // without a place; nodes know them and viewers look at them
  };
  // A job keeps its place while viewers look at it and a node knows it. Free places go to known
  // jobs first, and among equals to the one that was asked for last.
  Choice choose(TimePoint now);

 private:
  std::map<std::string, TimePoint> asked_;  // when a viewer last asked for the job
  std::set<std::string> known_, held_;
};

}  // namespace paddle::cli
