// Clocks: decisions are made by the clock since boot. Whoever sets a machine's clock changes what
// logs, reports and names say, and nothing else.
#include <algorithm>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/tidy/sources.h"

namespace paddle::tidy {
namespace {

// Files that read the wall clock, and for which purpose.
const std::map<std::string, std::string> kReaders = {
    {"base/clock.h", "unix_milliseconds(), for records"},
    {"base/log.cc", "the time before a line"},
    {"cli/cluster/journal.cc", "the time of an entry"},
    {"cli/main.cc", "Context's clocks, for names and reports"},
    {"remote/agent/node/host.cc", "the local zone's offset"},
    {"remote/agent/node/proc.cc", "unix_ms(), for records"},
    {"remote/client/push_source.cc", "compared with the times of files, which are the wall's too"},
};

// Files that call functions of these, and for which purpose.
const std::map<std::string, std::string> kCallers = {
    {"cli/cluster/provider.cc", "copies a context"},
    {"cli/commands/check.cc", "shows how far the clocks of the nodes are apart"},
    {"cli/commands/copy.cc", "the name of a folder"},
    {"cli/commands/status.cc", "the head of a page"},
    {"cli/commands/teardown.cc", "the cost of a provider's nodes"},
    {"cli/commands/train.cc", "the name of a job"},
    {"cli/commands/up.cc", "the cost of a provider's nodes"},
    {"cli/dashboard/cluster_watch.cc", "the time of what a page shows"},
    {"cli/job/prepared_data.cc", "the name of a folder"},
    {"cli/job/results.cc", "the time of a fetched link"},
    {"cli/report/record.cc", "when a job was started"},
    {"engine/commands/counted_shard.cc", "since when a trainer waits, for status"},
    {"engine/commands/supervision.cc", "when a notice was sent, for status"},
    {"engine/trainer/metrics.cc", "the time of a line"},
    {"remote/agent/process/notifier.cc", "the time of a line of the log"},
    {"remote/agent/process/record.cc", "when a process began and ended, for status"},
    {"remote/agent/process/supervisor.cc", "the time of a line of the log"},
    {"remote/agent/process/usage.cc", "the node's clock, for status"},
};

// `words`: one is in every line that the pattern may match, for regex_search is slow.
std::set<std::string> files_with(const std::vector<std::string>& words, const std::regex& pattern) {
  std::set<std::string> found;
  for (const Source& source : product_sources()) {
    for (const std::string& line : source.lines) {
      const bool may = std::ranges::any_of(
          words, [&](const std::string& word) { return line.find(word) != std::string::npos; });
      if (may && std::regex_search(line, pattern)) found.insert(source.path);
    }
  }
  return found;
}

void expect_only(const std::set<std::string>& found,
                 const std::map<std::string, std::string>& known) {
  for (const std::string& path : found) {
    EXPECT_TRUE(known.contains(path)) << path << " reads the wall clock, which anyone can set: "
                                      << "decide by base/clock.h, or add it here with its purpose";
  }
  for (const auto& [path, purpose] : known) {
    EXPECT_TRUE(found.contains(path)) << path << " no longer reads it: remove it from here";
  }
}

}  // namespace

TEST(Clocks, TheWallClockIsReadForRecordsAndReportsAlone) {
  expect_only(
      files_with({"clock", "CLOCK", "time"},
                 std::regex(R"(\bsystem_clock\b|\bhigh_resolution_clock\b|\butc_clock\b)"
                            R"(|\bCLOCK_REALTIME|\bgettimeofday\(|\btime\((nullptr|NULL|0)\))")),
      kReaders);
}

TEST(Clocks, ItsFunctionsAreCalledForRecordsAndReportsAlone) {
  // Not a getter of that name, as messages have.
  auto found = files_with(
      {"unix_"},
      std::regex(
          R"((^|[^.>\w])unix_ms\(\)|\bunix_milliseconds\(\)|\bcontext_?\.unix_(ms|seconds)\b)"));
  for (const char* own :
       {"base/clock.h", "remote/agent/node/proc.h", "remote/agent/node/proc.cc"}) {
    found.erase(own);
  }
  expect_only(found, kCallers);
}

}  // namespace paddle::tidy
