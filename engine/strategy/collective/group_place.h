// Where the ranks of a group are in their job: steps, passes and their totals, alike on all of
// them.
#pragma once

#include <span>
#include <vector>

#include "engine/client/parameter_client.h"
#include "engine/collective/step_info.h"
#include "engine/optim/optimizer.h"
#include "engine/optim/schedule.h"
#include "proto/collective.pb.h"

namespace paddle::strategy {

struct GroupPlace {
  explicit GroupPlace(std::uint32_t ranks) : cursors(ranks), pass_batches(ranks) {}

  // As a shard counts a round of pushes, but for costs, which a later round may tell.
  void count(std::span<const collective::StepInfo> infos);
  // The end of the pass, or a pause: what it tells all trainers.
  const client::PassTotals& end_pass(Tally all, bool is_pause);
  // Of a snapshot, and of a cut.
  void go_to(const wire::LoadBegin& place, const wire::PassOrigins& from);
  void go_to(const wire::GroupCut& cut);
  // Fills in all that go_to() reads.
  void write_to(wire::GroupCut& cut) const;
  static bool is_whole(const wire::GroupCut& cut);
  client::JobProgress progress(std::uint32_t rank) const;
  // Some rank has a batch of the pass.
  bool is_within_pass() const;

  std::uint64_t step = 0;
  std::uint64_t samples = 0;
  std::uint64_t passes = 0;
  std::uint64_t passes_loaded = 0;
  optim::Progress begun;  // before this pass, or this part of it
  std::uint64_t pauses = 0;
  std::vector<std::uint64_t> cursors;       // pushes ever, by rank
  std::vector<std::uint64_t> pass_batches;  // by rank
  client::PassTotals pass;
  client::PassTotals ended;   // as the last end or pause has told them
  bool went_back = false;     // to a cut
  wire::PassOrigins origins;  // of the snapshot that the job goes on from
};

}  // namespace paddle::strategy
