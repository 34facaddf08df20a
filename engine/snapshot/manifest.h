// MANIFEST of a snapshot: plain text, one fact a line; the last line is the SHA-256 of all before
// it. It binds the snapshot together: every block file contains its id, and it contains every
// file's SHA-256. paddlectl reads it too, so this file and manifest.cc are a library of their own.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/sha256.h"
#include "engine/snapshot/info.h"

namespace paddle::snapshot {

constexpr std::size_t kManifestBytesMax = 64U << 20U;
constexpr std::uint32_t kSnapshotFormat = 4;  // no other one is read
constexpr std::uint32_t kStateWidthMax = 16;  // floats of optimizer state for each value

using SnapshotId = std::array<std::byte, 16>;

struct FileEntry {
  std::string name;
  std::uint64_t size = 0;
  Sha256Digest sha256{};
  std::uint32_t crc = 0;  // CRC32C; verify_file() sets it
};

struct ManifestParameter {
  wire::ParameterSpec spec;
  std::uint32_t state_width = 0;
  std::uint64_t rows = 0;     // in a sparse table, without the rows of a base
  std::uint64_t removed = 0;  // from a sparse table, in a delta
  // Dense: "<name>" and "<name>.state". Sparse: "<name>.sparse-00000" and so on, at least one; the
  // last file of a delta is "<name>.sparse-removed".
  std::vector<FileEntry> files;
};

struct Manifest {
  SnapshotId id{};
  SnapshotInfo info;
  std::vector<FileEntry> model;  // ModelFiles
  std::vector<ManifestParameter> parameters;

  // All files of the snapshot, without MANIFEST and `done`.
  std::vector<FileEntry> files() const;
};

// Whether a file that describes the model may have this name.
bool is_model_file_name(const std::string& name);

std::string state_file_name(const std::string& parameter);
std::string rows_file_name(const std::string& parameter, std::size_t number);
std::string removed_file_name(const std::string& parameter);

// A hash of the facts in `info`, so that equal runs write equal snapshots. Runs of one job that
// differ nevertheless have files with another SHA-256.
SnapshotId snapshot_id(const SnapshotInfo& info);

std::string encode_manifest(const Manifest& manifest);
// kData "MANIFEST: ...", kVersion for another format. Names, dims, counts, the optimizer's numbers
// and file names are checked: every file is below the snapshot's folder.
Result<Manifest> decode_manifest(std::string_view text);

}  // namespace paddle::snapshot
