// Writer of a snapshot directory: one v0.10 file per dense parameter with "<name>.state" beside it;
// sparse tables as numbered files "<name>.sparse-00000"; files that describe the model; MANIFEST,
// and last `done`. A directory without a valid MANIFEST is not a snapshot.
//
// A delta contains dense parameters whole. Of each table it contains all candidates, the rows that
// differ from the base, a full snapshot beside it, and in "<name>.sparse-removed" the ids of
// removed rows. The other rows of the base have aged and decayed by the passes in between.
#pragma once

#include <memory>
#include <span>

#include "base/result.h"
#include "engine/snapshot/file_system.h"
#include "engine/snapshot/info.h"

namespace paddle::snapshot {

// Builds the snapshot in "<directory>.tmp". finish() makes it durable and renames it; only then it
// replaces an earlier snapshot of that name. Without finish(), the destructor removes all.
// kResource: the file system failed. kUsage: a name or size is wrong.
class SnapshotWriter {
 public:
  // The parent of `directory` must exist; `directory` may be absent, empty or a snapshot whose
  // MANIFEST can be read. info.base, from base_of(), makes the snapshot a delta.
  static Result<SnapshotWriter> create(const std::string& directory, SnapshotInfo info,
                                       FileSystem& files = kernel_file_system());
  SnapshotWriter(SnapshotWriter&&) noexcept;
  SnapshotWriter& operator=(SnapshotWriter&&) noexcept;
  ~SnapshotWriter();

  Status add_model_file(const ModelFile& file);
  // `value` has the spec's element count; `state` is whole planes of that many floats.
  Status add_dense(const wire::ParameterSpec& spec, std::span<const float> value,
                   std::span<const float> state, std::uint64_t update_count);
  // Between begin_sparse() and end_sparse(), adds the rows of one table, in any order, each id
  // once. `rows` is any number of them in the form of table::RowForm, which the file has, too.
  Status begin_sparse(const wire::ParameterSpec& spec, std::uint32_t state_width);
  Status add_rows(ByteSpan rows);
  Status add_removed(std::span<const std::uint64_t> ids);  // for a delta
  Status end_sparse();
  Status finish();

 private:
  struct Impl;
  explicit SnapshotWriter(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace paddle::snapshot
