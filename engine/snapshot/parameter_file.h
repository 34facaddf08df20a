// Files of one parameter in a snapshot: their verification, and readers of what is in them. Errors
// are kData and name the file.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "engine/snapshot/manifest_format.h"

namespace paddle::snapshot {

// Verifies the files of the parameters, several at a time, and notes their CRC32C, with which they
// are read later. The error is that of the first damaged file in the order of MANIFEST.
Status verify_files(const Directory& root, const std::optional<SnapshotId>& snapshot,
                    std::span<ManifestParameter* const> parameters);

Result<std::vector<float>> read_value(const Directory& root, const FileEntry& entry,
                                      std::uint64_t count);
Result<std::vector<float>> read_state(const Directory& root, const FileEntry& entry,
                                      const BlockHeader& header, std::uint64_t& update_count);
// Calls on_row for the rows of one file and adds their number to `rows`.
Status read_rows_file(const Directory& root, const FileEntry& entry, const BlockHeader& header,
                      const std::function<Status(SparseRow&)>& on_row, std::uint64_t& rows);
Result<std::vector<std::uint64_t>> read_removed(const Directory& root, const FileEntry& entry,
                                                const BlockHeader& header, std::uint64_t count);

}  // namespace paddle::snapshot
