// The snapshots of a job's passes: the names of their folders, and the choice of --pass.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cli/watch/metrics_line.h"

namespace paddle::cli {

// "pass-00002", the end of pass 2, or "pass-00002-000040": the job stopped in it after batch 40.
// Ordered by progress.
struct SnapshotName {
  std::uint64_t pass = 0;
  bool is_whole = true;  // false sorts first
  std::uint64_t batch = 0;
  auto operator<=>(const SnapshotName&) const = default;
};
std::optional<SnapshotName> parse_snapshot_name(std::string_view folder);
// The snapshot to which a file of output/ belongs, "pass-00002" for "pass-00002/MANIFEST"; "" for
// other files.
std::string snapshot_of(const std::string& file);
// The checkpoint that this file of output/ completes. MANIFEST completes its folder, both in
// snapshots and in the checkpoints of a user's own program; "checkpoint.pt" is a checkpoint itself.
// "" for other files.
std::string checkpoint_of(const std::string& file);
// The snapshots among the files of output/, by progress: those with a MANIFEST. If none has one, as
// with a program that writes none, every folder with a snapshot's name.
std::vector<std::string> snapshots_among(const std::set<std::string>& files);

struct PassChoice {
  enum class Kind { kLast, kBest, kLastAndBest, kAll, kOne };
  Kind kind = Kind::kLast;
  std::uint64_t pass = 0;  // kOne
};
// "last", "best", "all", or the name of a snapshot, "pass-00002"; "" is kLastAndBest. A bare number
// is refused: passes are counted from 1 on the screen and from 0 in the names of folders.
Result<PassChoice> parse_pass_choice(const std::string& text);

// The passes from the best to the worst, by the held-out cost of each pass's last test or, if tests
// have no cost, by their first evaluator.
std::vector<std::uint64_t> ranked_passes(const std::vector<MetricsLine>& metrics);

}  // namespace paddle::cli
