// The position of a group in its job: its steps, its passes, and their totals. A plain value,
// without I/O.
//
// INVARIANT: it is the same on all ranks between two rounds, since all ranks count the same rounds.
// So a snapshot that any rank saves, and the savepoints of all ranks, have the same position.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/client/parameter_client.h"
#include "engine/group/step_info.h"
#include "engine/math/schedule.h"
#include "proto/collective.pb.h"

namespace paddle::strategy {

struct GroupProgress {
  explicit GroupProgress(std::uint32_t ranks) : cursors(ranks), pass_batches(ranks) {}

  // Counts a round of pushes as a shard does, except for costs, which a later round may carry.
  void count(std::span<const collective::StepInfo> infos);
  // Ends the pass, or pauses in it, and returns the totals for all trainers.
  const client::PassTotals& end_pass(Tally all, bool is_pause);
  // Whether some rank has done a batch of the pass.
  bool is_within_pass() const;
  client::JobProgress progress(std::uint32_t rank) const;

  // Goes to the position of a snapshot.
  void go_to(const wire::LoadBegin& place, const wire::PassOrigins& from);
  // Goes to the position of a savepoint. REQUIRES: is_whole(savepoint).
  void go_to(const wire::GroupSavepoint& savepoint);
  static bool is_whole(const wire::GroupSavepoint& savepoint);
  // Sets all fields that go_to() reads.
  void write_to(wire::GroupSavepoint& savepoint) const;

  std::uint64_t step = 0;
  std::uint64_t samples = 0;
  std::uint64_t passes = 0;
  std::uint64_t passes_loaded = 0;
  optim::Progress begun;  // progress before this pass, or before this part of it
  std::uint64_t pauses = 0;
  std::vector<std::uint64_t> cursors;       // number of all pushes, by rank
  std::vector<std::uint64_t> pass_batches;  // by rank
  client::PassTotals pass;
  client::PassTotals ended;   // the totals of the last end or pause
  bool is_restored = false;   // from a savepoint
  wire::PassOrigins origins;  // from the snapshot that the job continues from
};

}  // namespace paddle::strategy
