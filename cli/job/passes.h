// The snapshots of a job's passes: the names of their folders, and those that --pass asks for.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cli/logs/metrics_line.h"

namespace paddle::cli {

// "pass-00002", the end of pass 2, or "pass-00002-000040": the job stopped in it after batch 40.
// Ordered by progress.
struct SnapshotName {
  std::uint64_t pass = 0;
  bool is_whole = true;  // false comes first
  std::uint64_t batch = 0;
  auto operator<=>(const SnapshotName&) const = default;
};
std::optional<SnapshotName> parse_snapshot_name(std::string_view folder);
// The snapshot that holds a file of output/, "pass-00002" of "pass-00002/MANIFEST"; "" for others.
std::string snapshot_of(const std::string& file);
// The checkpoint that a file of output/ makes whole: its folder where that is named MANIFEST, as of
// snapshots and of programs of the user's own, or "checkpoint.pt"; "" for others.
std::string checkpoint_of(const std::string& file);
// The snapshots among the files of output/, by progress: those with a MANIFEST or, of a program
// that writes none, every folder with such a name.
std::vector<std::string> snapshots_among(const std::set<std::string>& files);

// The value of `key` in the first line of a MANIFEST that begins with `kind`; "" where there is
// none. "base name" is the snapshot that a delta is based on.
std::string manifest_field(const std::string& manifest, const std::string& kind,
                           const std::string& key);
constexpr std::uint32_t kManifestHeadBytes = 64U << 10U;  // has all lines but those of files

struct PassChoice {
  enum class Kind { kLast, kBest, kLastAndBest, kAll, kOne };
  Kind kind = Kind::kLast;
  std::uint64_t pass = 0;  // kOne
};
// "last", "best", "all", or the name of a snapshot, "pass-00002"; "" is kLastAndBest. A bare number
// is refused: passes are counted from 1 on the screen and from 0 in the names of folders.
Result<PassChoice> parse_pass_choice(const std::string& text);

// Whether a higher value of this figure of tests is the better one: "auc"; not so "cost", "rmse".
bool is_better_when_higher(std::string_view figure);

// The passes from the best to the worst, by the held-out cost of the last test of each or, where
// tests have none, by their first evaluator.
std::vector<std::uint64_t> ranked_passes(const std::vector<MetricsLine>& metrics);

}  // namespace paddle::cli
