#include "engine/client/snapshot_parts.h"

#include "engine/snapshot/reader.h"

namespace paddle::client {

Status SnapshotParts::save_to(const std::string& directory, snapshot::SnapshotInfo info,
                              SavedRows rows) {
  const std::size_t trainers = info.pass_batches.size();
  if (place_ && trainers > 0 && place_->records.size() == trainers &&
      place_->data.size() == trainers) {
    info.place = place_;
  }
  PADDLE_TRY(auto writer, snapshot::SnapshotWriter::create(directory, info));
  if (model_) {
    for (const snapshot::ModelFile& file : *model_) PADDLE_TRY_STATUS(writer.add_model_file(file));
  }
  PADDLE_TRY_STATUS(add_to(writer, rows));
  return writer.finish();
}

Status SnapshotParts::save(const std::string& directory) {
  PADDLE_TRY(const snapshot::SnapshotInfo facts, info());
  return save_to(directory, facts, SavedRows::kFull);
}

Status SnapshotParts::save_copy(const std::string& directory) {
  PADDLE_TRY(const snapshot::SnapshotInfo facts, info());
  return save_to(directory, facts, SavedRows::kCopy);
}

Status SnapshotParts::save_delta(const std::string& directory, const std::string& base) {
  PADDLE_TRY(snapshot::SnapshotInfo facts, info());
  PADDLE_TRY(facts.base, snapshot::base_of(base));
  return save_to(directory, facts, SavedRows::kDelta);
}

}  // namespace paddle::client
