// Facts about a job that its snapshot contains.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/sha256.h"
#include "proto/parameters.pb.h"

namespace paddle::snapshot {

// The full snapshot that a delta continues: a directory beside it.
struct BaseSnapshot {
  std::string name;
  Sha256Digest sha256{};  // of its MANIFEST

  bool operator==(const BaseSnapshot&) const = default;
};

// The order in which trainers get records, and how records become batches. A position in the middle
// of a pass is valid only for this order, the seed and the number of trainers.
struct DataOrder {
  std::uint64_t batch_size = 0;  // which may change: positions are counted in records
  std::uint64_t shuffle_records = 0;
  std::uint64_t files_at_once = 1;
  bool global_shuffle = false;
  std::string uneven = "join";  // [strategy] uneven
  std::uint64_t reader = 0;     // hash of all else in [data] that records depend on

  bool operator==(const DataOrder&) const = default;
};

// The position of a job in the middle of a pass, besides the batches that its trainers have done.
struct PassPlace {
  DataOrder order;
  std::vector<std::uint64_t> records;  // in these batches, by trainer
  std::vector<std::uint64_t> data;     // a hash of the content of each trainer's data; 0: not known
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
  std::optional<PassPlace> place;    // none between two passes
  std::optional<BaseSnapshot> base;  // only in a delta
};

// A file that describes the model: "path.txt" and "job.toml" as v0.10 had them, or "model/<name>".
struct ModelFile {
  std::string name;
  std::string content;
};
constexpr std::size_t kModelFilesMax = 64;
constexpr std::size_t kModelFileBytesMax = 16U << 20U;
// The state of a program that trains its dense parameters itself: bytes that only it understands.
constexpr const char* kStateFile = "model/state";
constexpr std::uint64_t kStateBytesMax = 4ULL << 30U;
constexpr std::uint64_t model_file_bytes_max(std::string_view name) {
  return name == kStateFile ? kStateBytesMax : kModelFileBytesMax;
}

}  // namespace paddle::snapshot
