// Facts about a job in its snapshot, and the form of a table's rows.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/sha256.h"
#include "engine/parameter/row_notes.h"
#include "proto/parameters.pb.h"

namespace paddle::snapshot {

// The full snapshot that a delta continues: a directory beside it.
struct BaseSnapshot {
  std::string name;
  std::optional<Sha256Digest> sha256;  // of its MANIFEST; absent in format 1
  std::uint32_t crc = 0;               // CRC32C of its MANIFEST, in format 1
};

struct SnapshotInfo {
  wire::Optimizer optimizer;
  std::uint64_t pass = 0;
  std::uint64_t step = 0;     // the next step of every trainer's lanes
  std::uint64_t samples = 0;  // pushed by all trainers so far
  std::uint64_t seed = 0;
  std::vector<std::uint64_t> trainer_cursors;  // next batch of each trainer's data, by trainer id
  // Batches of the current pass that each trainer has done; empty between two passes.
  std::vector<std::uint64_t> pass_batches;
  std::optional<BaseSnapshot> base;  // of a delta
};

// A file that describes the model: "path.txt" and "job.toml" as v0.10 had them, or "model/<name>".
struct ModelFile {
  std::string name;
  std::string content;
};
constexpr std::size_t kModelFilesMax = 64;
constexpr std::size_t kModelFileBytesMax = 16U << 20U;

struct SparseRow {
  std::uint64_t id = 0;
  std::uint64_t marks = 0;  // parameter::RowMarks, packed
  std::vector<float> value;
  std::vector<float> state;        // state_width planes of value.size() floats
  parameter::RowScore score = {};  // of a table that shrinks
};

}  // namespace paddle::snapshot
