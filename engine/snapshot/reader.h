// Reader of a snapshot directory (writer.h) that verifies it.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/snapshot/info.h"

namespace paddle::snapshot {

// The base for a delta beside `directory`. kData: `directory` is no full snapshot.
Result<BaseSnapshot> base_of(const std::string& directory);

// Every error is kData (or kResource) and names the file, the expected and the found.
class SnapshotReader {
 public:
  // Verifies MANIFEST, and the size and CRC32C of every file it lists; of a delta also its base.
  static Result<SnapshotReader> open(const std::string& directory);
  SnapshotReader(SnapshotReader&&) noexcept;
  SnapshotReader& operator=(SnapshotReader&&) noexcept;
  ~SnapshotReader();

  const SnapshotInfo& info() const;
  std::vector<wire::ParameterSpec> parameters() const;
  // Replaces value and state with the parameter's; state is whole planes.
  Status read_dense(const std::string& name, std::vector<float>& value, std::vector<float>& state,
                    std::uint64_t& update_count) const;
  // Calls the function for each row, those of a base first. Its first error ends the reading and is
  // returned.
  Status read_rows(const std::string& name,
                   const std::function<Status(const SparseRow&)>& on_row) const;

 private:
  struct Impl;
  explicit SnapshotReader(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace paddle::snapshot
