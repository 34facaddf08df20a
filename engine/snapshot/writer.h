// A snapshot directory: one v0.10 file per dense parameter, "<name>.state" beside it, sparse tables
// as numbered
// "<name>.sparse-00000" files, MANIFEST written last, then `done`. A directory without a valid
// MANIFEST is not a snapshot.
//
// A delta holds dense parameters whole, and of each table the rows that differ from a full snapshot
// beside it, the base, all candidates, and in "<name>.sparse-removed" the ids of rows that went.
// Rows of the base that it does not name are as many passes older and decayed.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/snapshot/info.h"
#include "engine/snapshot/parameter_file.h"

namespace paddle::snapshot {

// Builds in "<directory>.tmp"; finish() makes it durable and renames it, replacing an earlier
// snapshot of that name only then. Destroyed before finish(), it leaves nothing behind. Errors:
// kResource for the file system, kUsage for misuse of names and sizes by the caller's input.
class SnapshotWriter {
 public:
  // The parent of `directory` must exist. An existing `directory` must be empty or a snapshot. With
  // a base, of base_of(), it becomes a delta.
  static Result<SnapshotWriter> create(const std::string& directory,
                                       std::optional<BaseSnapshot> base = {});
  SnapshotWriter(SnapshotWriter&&) noexcept;
  SnapshotWriter& operator=(SnapshotWriter&&) noexcept;
  ~SnapshotWriter();

  // `value` has the spec's element count; `state` is whole planes of that many floats.
  Status add_dense(const wire::ParameterSpec& spec, std::span<const float> value,
                   std::span<const float> state, std::uint64_t update_count);
  // Rows of one table between begin_sparse and end_sparse, in any order, each id once.
  Status begin_sparse(const wire::ParameterSpec& spec, std::uint32_t state_width);
  Status add_rows(std::span<const SparseRow> rows);
  Status add_removed(std::span<const std::uint64_t> ids);  // of a delta
  Status end_sparse();
  Status finish(const SnapshotInfo& info);

 private:
  struct Impl;
  explicit SnapshotWriter(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// For a delta beside `directory`. kData unless that is a full snapshot.
Result<BaseSnapshot> base_of(const std::string& directory);

// Every error is kData (or kResource) and names the file, what was expected and what was found.
class SnapshotReader {
 public:
  // Verifies MANIFEST, and the size and CRC32C of every file it lists; of a delta also its base.
  static Result<SnapshotReader> open(const std::string& directory);
  SnapshotReader(SnapshotReader&&) noexcept;
  SnapshotReader& operator=(SnapshotReader&&) noexcept;
  ~SnapshotReader();

  const SnapshotInfo& info() const;
  std::vector<wire::ParameterSpec> parameters() const;
  // Replaces value and state with the parameter's, state as whole planes.
  Status read_dense(const std::string& name, std::vector<float>& value, std::vector<float>& state,
                    std::uint64_t& update_count) const;
  // Calls the function for each row in file order, those of a base first; its first error ends the
  // reading and is returned.
  Status read_rows(const std::string& name,
                   const std::function<Status(const SparseRow&)>& on_row) const;

 private:
  struct Impl;
  explicit SnapshotReader(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace paddle::snapshot
