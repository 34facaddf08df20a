// ONNX model of a snapshot's network: from the slots of a record to its score.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "engine/config/job_config.h"
#include "engine/snapshot/reader.h"

namespace paddle::onnx {

constexpr std::uint64_t kModelBytesMax = (std::uint64_t{1} << 31U) - 1;  // protobuf's own limit

struct ModelOptions {
  std::string layer;    // whose outputs are wanted; "": the scores of the job's first cost
  std::string scratch;  // a folder for the rows of large tables
  std::uint64_t bytes_max = kModelBytesMax;
};

// The file's bytes. Its inputs are the slots that the network reads, by name: int64 {records} of
// one id, int64 {records, length} and a mask of floats, "<slot>.mask", of any number, float
// {records, width}. Its output is "score" or, of a layer that was asked for, "values". kUsage: a
// layer has no nodes in ONNX, or there is no score or no such layer; kData: the snapshot is not of
// this network; kResource: the model is too large.
Result<std::string> network_model(const snapshot::SnapshotReader& snapshot,
                                  const config::JobConfig& job, const ModelOptions& options);

}  // namespace paddle::onnx
