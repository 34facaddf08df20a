// Snapshots by a client that keeps all parameters of a job, or that combines clients which keep a
// part each.
#pragma once

#include "engine/client/snapshot_client.h"
#include "engine/snapshot/writer.h"

namespace paddle::client {

enum class SavedRows { kFull, kDelta, kCopy };  // how tables are saved in a snapshot

class SnapshotParts : public SnapshotClient {
 public:
  // The position of the job, for the snapshot about to be saved.
  virtual Result<snapshot::SnapshotInfo> info() = 0;
  // Adds the parameters that this client keeps.
  virtual Status add_to(snapshot::SnapshotWriter& writer, SavedRows rows) = 0;

  void describe(std::shared_ptr<const std::vector<snapshot::ModelFile>> model) override {
    model_ = std::move(model);
  }
  void describe_place(const snapshot::PassPlace& place) override { place_ = place; }
  Status save(const std::string& directory) override;
  Status save_delta(const std::string& directory, const std::string& base) override;
  Status save_copy(const std::string& directory) override;

 private:
  Status save_to(const std::string& directory, snapshot::SnapshotInfo info, SavedRows rows);

  std::shared_ptr<const std::vector<snapshot::ModelFile>> model_;  // null: not described
  std::optional<snapshot::PassPlace> place_;                       // nothing: not described
};

}  // namespace paddle::client
