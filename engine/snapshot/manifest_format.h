// MANIFEST of a snapshot: plain text, one fact a line, the last line the SHA-256 of all before it.
// It binds the snapshot together: its id is in every block file, and it has every file's SHA-256.
//
// Format 3 is format 2 with the files that describe the model; a snapshot without them is written
// in format 2. Format 4 is of those in the middle of a pass: it has the order of the data, and each
// trainer's place in records. Format 1, of releases up to 0.1, is read too: it has CRC32C where the
// others have SHA-256, and no id.
#pragma once

#include "engine/snapshot/block_file.h"
#include "engine/snapshot/info.h"

namespace paddle::snapshot {

constexpr std::uint64_t kRowsFileBytesMax = 64U << 20U;  // then come the next rows in another
constexpr std::size_t kManifestBytesMax = 64U << 20U;
constexpr std::uint32_t kSnapshotFormat = 4;
constexpr std::uint32_t kStateWidthMax = 16;  // floats of optimizer state for each value

struct ManifestParameter {
  wire::ParameterSpec spec;
  std::uint32_t state_width = 0;
  std::uint64_t rows = 0;     // of a sparse table, without those of a base
  std::uint64_t removed = 0;  // of a sparse table in a delta
  // Dense: "<name>" and "<name>.state". Sparse: "<name>.sparse-00000" and on, at least one; a
  // delta's last one is "<name>.sparse-removed".
  std::vector<FileEntry> files;
};

struct Manifest {
  std::optional<SnapshotId> id;  // absent in format 1
  SnapshotInfo info;
  std::vector<FileEntry> model;  // ModelFiles
  std::vector<ManifestParameter> parameters;
};

// Whether a file that describes the model may have that name.
bool is_model_file_name(const std::string& name);

std::string state_file_name(const std::string& parameter);
std::string rows_file_name(const std::string& parameter, std::size_t number);
std::string removed_file_name(const std::string& parameter);

// Of the facts, so that equal runs write equal snapshots; two runs of a job that differ all the
// same are told apart by the SHA-256 of their files.
SnapshotId snapshot_id(const SnapshotInfo& info);

// The header of a file of a parameter, of all but dense values; its update count is left at 0.
BlockHeader block_header(const std::optional<SnapshotId>& snapshot,
                         const ManifestParameter& parameter, const std::string& file);

std::string encode_manifest(const Manifest& manifest);
// kData "MANIFEST: ...", kVersion for another format. Names, dims, counts, the optimizer's numbers
// and file names are checked.
Result<Manifest> decode_manifest(std::string_view text);

}  // namespace paddle::snapshot
