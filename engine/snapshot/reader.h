// Reader of a snapshot directory (writer.h), which verifies it.
#pragma once

#include <functional>
#include <memory>

#include "engine/snapshot/format.h"
#include "engine/table/row_form.h"

namespace paddle::snapshot {

// Describes the snapshot `directory` as the base of a delta beside it. kData: it is no full
// snapshot.
Result<BaseSnapshot> base_of(const std::string& directory,
                             FileSystem& files = kernel_file_system());

// Every error is kData (or kResource) and names the file, what was expected and what was found.
class SnapshotReader {
 public:
  // Verifies MANIFEST, and the size and SHA-256 of every file that it lists. For a delta, also
  // verifies the base in this way.
  static Result<SnapshotReader> open(const std::string& directory,
                                     FileSystem& files = kernel_file_system());
  // Verifies the same as open(), but not the base.
  static Status check(const std::string& directory, FileSystem& files = kernel_file_system());

  const std::string& directory() const { return directory_; }
  const SnapshotInfo& info() const { return manifest_.info; }
  const Manifest& manifest() const { return manifest_; }
  std::vector<wire::ParameterSpec> parameters() const;
  // Reads a file that describes the model; std::nullopt if the snapshot has no file of that name.
  Result<std::optional<std::string>> read_model_file(const std::string& name) const;
  // Replaces `value` and `state` by the parameter's. `state` has one plane after the other.
  Status read_dense(const std::string& name, std::vector<float>& value, std::vector<float>& state,
                    std::uint64_t& update_count) const;
  // Reads only the parameter's values.
  Result<std::vector<float>> read_dense_value(const std::string& name) const;
  // Calls `on_row` for each row, first for the rows of a base. The row's floats are valid during
  // that call only. The first error of `on_row` ends the reading and is returned.
  Status read_rows(const std::string& name,
                   const std::function<Status(const table::Row&)>& on_row) const;

 private:
  using OnRow = std::function<Status(table::Row&)>;

  SnapshotReader(std::string directory, FileSystem& files)
      : directory_(std::move(directory)), files_(&files) {}
  static Result<SnapshotReader> read_manifest(const std::string& directory, FileSystem& files);
  static Result<SnapshotReader> open_own(const std::string& directory, FileSystem& files);
  Status open_base();
  // Checks the files of the wanted parameters and stores their CRC32C, which later reads check.
  Status verify(const std::function<bool(const ManifestParameter&)>& wanted);
  Result<const ManifestParameter*> find(const std::string& name, bool sparse) const;
  Status read_own_rows(const ManifestParameter& table, const OnRow& on_row) const;
  Status read_base_rows(const ManifestParameter& table, const OnRow& on_row) const;
  // Adds the directory to an error.
  template <class T>
  Result<T> named(Result<T> result) const {
    if (result) return result;
    return std::move(result).error().with(directory_);
  }
  Error error(std::string message, std::string hint = {}) const {
    return Error{Errc::kData, std::move(message), std::move(hint)}.with(directory_);
  }

  std::string directory_;
  FileSystem* files_;
  std::unique_ptr<Directory> root_;
  Manifest manifest_;
  BaseSnapshot identity_;                 // how a delta names this snapshot as its base
  std::unique_ptr<SnapshotReader> base_;  // null unless this is a delta
};

}  // namespace paddle::snapshot
