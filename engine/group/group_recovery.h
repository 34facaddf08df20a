// Recovery of a group that has lost a rank, if its trainers return: the rank's process is
// restarted, and all ranks join a new group. There all go back to the newest savepoint that every
// rank has.
//
//     savepoint        7    8    9
//     rank 0               [8]  [9]     each rank keeps its two newest savepoints
//     rank 1          [7]  [8]          is lost before it has kept 9
//     rank 2               [8]  [9]
//                           ^
//                           all go back to 8; ranks 0 and 2 forget 9, since the 9 that comes next
//                           may be another one
//
// Rank 0 decides when a savepoint is due, and announces it with a step (group_steps.h). There is
// one after each end of a pass and each pause between passes, too.
//
// INVARIANT: savepoints with one number are of one position on all ranks, since all count the
// savepoints of all, and the ones that they could not keep.
// INVARIANT: before the first step of a group, no rank has a savepoint that another one lacks. Else
// a later recovery could mix two histories of the job.
#pragma once

#include <memory>
#include <optional>

#include "engine/group/group_rank.h"
#include "engine/group/group_savepoints.h"

namespace paddle::strategy {

class GroupRecovery {
 public:
  // `rank` outlives it.
  explicit GroupRecovery(GroupRank& rank) : rank_(rank) {}

  // All ranks call it first in a new group. `options` says where this rank keeps savepoints;
  // without them, or without room in `bytes_max` bytes of memory, it keeps none. Then no rank goes
  // back, and all begin anew, or with the snapshot that rank 0 loads. kUnreachable: a savepoint was
  // lost, and the next group goes back to an earlier state.
  Status go_back(std::optional<GroupSavepoints::Options> options, std::uint64_t bytes_max);
  // Whether this rank is to announce a savepoint with the next step.
  bool is_due() const;
  // Keeps a savepoint of this rank's part. All ranks call it at the same position.
  void keep();

 private:
  Status restore(const GroupSavepoints::Mark& mark);

  GroupRank& rank_;
  std::unique_ptr<GroupSavepoints> savepoints_;  // null: this rank keeps none
  std::uint64_t number_ = 0;                     // of the newest savepoint
};

}  // namespace paddle::strategy
