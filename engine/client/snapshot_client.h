// A trainer's interface to snapshots of a job's parameters, wherever these are stored.
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

// Loads and saves snapshot directories, on trainer 0. Any trainer may save copies.
class SnapshotClient {
 public:
  virtual ~SnapshotClient() = default;
  // Sets the files that all later snapshots contain, so that each describes its model.
  virtual void describe(std::shared_ptr<const std::vector<snapshot::ModelFile>> model) = 0;
  // Sets the trainers' positions in their data, before the save of a pause. Without them the
  // snapshot does not record what must stay unchanged until the pass ends.
  virtual void describe_place(const snapshot::PassPlace& /*place*/) {}
  // Replaces initial values and optimizer state; called between join and ready.
  virtual Status load(const std::string& directory) = 0;
  // Like load(), but the job continues where the snapshot was taken, even in the middle of a pass.
  virtual Status resume(const snapshot::SnapshotReader& snapshot) = 0;
  // Writes the directory, MANIFEST last; called between the end of a pass and the next push.
  // Parameters that the optimizer averages are saved as their averages.
  virtual Status save(const std::string& directory) = 0;
  // Like save(), but saves of each table only the difference from `base`, the directory beside it
  // that save() wrote last. REQUIRES: the parameter set has delta_snapshots.
  virtual Status save_delta(const std::string& directory, const std::string& base) = 0;
  // Like save(), with the same bits, but later deltas are not based on it.
  virtual Status save_copy(const std::string& directory) = 0;
  // Batches of the current pass that trainer 0 has done.
  virtual Result<std::uint64_t> leader_batches() = 0;
};

}  // namespace paddle::client
