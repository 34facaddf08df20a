// MANIFEST of a snapshot: plain text, one fact a line, the last line the CRC32C of all before it.
#pragma once

#include "engine/snapshot/block_file.h"
#include "engine/snapshot/info.h"

namespace paddle::snapshot {

constexpr std::size_t kManifestBytesMax = 64U << 20U;
constexpr std::uint32_t kSnapshotFormat = 1;
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
  SnapshotInfo info;
  std::vector<ManifestParameter> parameters;
};

std::string state_file_name(const std::string& parameter);
std::string rows_file_name(const std::string& parameter, std::size_t number);
std::string removed_file_name(const std::string& parameter);

std::string encode_manifest(const Manifest& manifest);
// kData "MANIFEST: ...", kVersion for another format. Names, dims and file names are checked.
Result<Manifest> decode_manifest(std::string_view text);

}  // namespace paddle::snapshot
