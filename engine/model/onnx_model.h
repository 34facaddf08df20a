// The ONNX model of a snapshot's network: from the slots of a record to its score.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "engine/config/job_config.h"
#include "engine/snapshot/reader.h"

namespace paddle::onnx {

constexpr std::uint64_t kModelBytesMax = (std::uint64_t{1} << 31U) - 1;  // protobuf's own limit

struct ModelOptions {
  std::string layer;    // layer whose outputs are wanted; "": the scores of the job's first cost
  std::string scratch;  // a folder for the rows of large tables
  std::uint64_t bytes_max = kModelBytesMax;
};

// The bytes of the model's file. Its inputs are the slots that the network reads, by name: int64
// {records} for a slot of one id; int64 {records, length} and a mask of floats, "<slot>.mask", for
// any number of ids; float {records, width} for floats, which the graph prepares, with NaN for
// missing ones of slots with `missing`. Its output is "score", or "values" if a
// layer was asked for. kUsage: a layer has no nodes in ONNX, there is no score, or there is no such
// layer; kData: the snapshot is of another network; kResource: the model is too large.
Result<std::string> network_model(const snapshot::SnapshotReader& snapshot,
                                  const config::JobConfig& job, const ModelOptions& options);

}  // namespace paddle::onnx
