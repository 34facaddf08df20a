// Transfer of the parameters' state between the ranks of a group. Each rank has the values of all
// dense parameters, but the optimizer's state of its own slices only.
//
//     gather: a rank saves, or tests                load: rank 0 reads a snapshot
//
//     rank 0   its slices --.                       rank 0   GroupStart, then for each parameter
//     rank 1   its slices --+--> root               (root)   its number of updates and its planes
//     rank 2   its slices --'    |                             |            |            |
//                                v                             v            v            v
//                             a snapshot                     rank 1       rank 2       rank 3
//
// The state of a parameter is one or more planes (table/dense_table.h): plane 0 is the values, the
// last one is the averages of an optimizer that has them.
//
// INVARIANT: all ranks make the same transfers in the same order, without a round before each. So a
// rank gathers only where all know its request from a round (group_steps.h), and loads only before
// training begins.
#pragma once

#include <functional>
#include <span>

#include "engine/client/batch_parameters.h"
#include "engine/group/group_rank.h"
#include "engine/snapshot/reader.h"
#include "engine/snapshot/writer.h"

namespace paddle::strategy {

class GroupState {
 public:
  enum class Planes : std::uint8_t { kAll, kAverages };
  // Gets a parameter's planes, one after the other, and may change them.
  using Use = std::function<void(std::uint32_t parameter, std::span<float> planes)>;

  // `rank` outlives it.
  explicit GroupState(GroupRank& rank) : rank_(rank) {}

  // On rank 0: sends the others the state of a snapshot. A job that `resumes` also continues at the
  // snapshot's position, even within a pass.
  Status load(const snapshot::SnapshotReader& snapshot, bool resumes);
  // On rank 0: lets the others begin. On the others: receives all that rank 0 loads until then.
  // kUsage: rank 0 trains with other parameters.
  Status begin_training();

  // Gathers all dense parameters on the root, one at a time, for `use`; on the other ranks, `use`
  // is null. The root takes part to the end, whatever happens in `use`.
  Status gather(std::uint32_t root, Planes planes, const Use& use) const;
  // Copies averages to where a test reads the values.
  static Use copy_averages(std::span<client::DenseParameter> parameters);
  // Adds all planes to a snapshot, until `written` has the first failure.
  Use add_to(snapshot::SnapshotWriter& writer, Status& written) const;
  // The position of the job, for the snapshot about to be saved.
  snapshot::SnapshotInfo info() const;

 private:
  Status receive(const wire::GroupStart& start);
  Status spread(std::uint32_t parameter, std::span<const float> value, std::span<const float> state,
                std::uint64_t update_count) const;
  Status send_start(const wire::LoadBegin* place, const wire::PassOrigins& origins);
  Result<wire::GroupStart> receive_start();

  GroupRank& rank_;
};

}  // namespace paddle::strategy
