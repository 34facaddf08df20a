// Snapshots of a job's parameters, wherever they live, as a trainer asks for them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"

namespace paddle::snapshot {
class SnapshotReader;
struct ModelFile;
struct PassPlace;
}  // namespace paddle::snapshot

namespace paddle::client {

// Loading and saving of snapshot directories, by trainer 0; copies are saved by any trainer.
class SnapshotClient {
 public:
  virtual ~SnapshotClient() = default;
  // Files that every snapshot saved from now on has, so that it describes its model.
  virtual void describe(std::shared_ptr<const std::vector<snapshot::ModelFile>> model) = 0;
  // Before the save of a pause: where the trainers are in their data. Without it the snapshot
  // cannot tell what may not change within the pass.
  virtual void describe_place(const snapshot::PassPlace& /*place*/) {}
  // Between join and ready: replaces initial values and optimizer state.
  virtual Status load(const std::string& directory) = 0;
  // load(), and the job continues where the snapshot was taken, be it in the middle of a pass.
  virtual Status resume(const snapshot::SnapshotReader& snapshot) = 0;
  // Between the end of a pass and the next push: writes the directory, MANIFEST last. Parameters
  // that the optimizer averages are saved as their averages.
  virtual Status save(const std::string& directory) = 0;
  // save(), but of tables only the difference from `base`: the directory beside it that save()
  // wrote last. The parameter set has delta_snapshots.
  virtual Status save_delta(const std::string& directory, const std::string& base) = 0;
  // save(), with the same bits, and no base for deltas.
  virtual Status save_copy(const std::string& directory) = 0;
  // Batches of the current pass that trainer 0 has done.
  virtual Result<std::uint64_t> leader_batches() = 0;
};

}  // namespace paddle::client
