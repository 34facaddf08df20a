// The description of a model in its snapshots, so that a snapshot can be used without its job:
//   path.txt, job.toml                 as in v0.10: path.txt names job.toml, as the trainer read it
//   model/job.toml                     the same with --set applied; it names the files in model/
//   model/dictionary.txt, counts.txt, statistics.json
//                                      files; for a large one only "<name>.sha256" by sha256sum
//   model/slots.json                   the contents of a record
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "engine/config/job_config.h"
#include "engine/data/dictionary.h"
#include "engine/snapshot/reader.h"

namespace paddle::inference {

constexpr const char* kStatisticsFile = "model/statistics.json";  // [data] statistics

// The files for the snapshots of a job that was read from `path`. `bytes_max` bounds each file.
// kUsage: there are more files than a snapshot may have.
Result<std::vector<snapshot::ModelFile>> describe_model(
    const config::ResolvedJob& job, const std::string& path,
    std::size_t bytes_max = snapshot::kModelFileBytesMax);

// Replacements for the description, or for parts of it.
struct DescriptionSource {
  std::string config = {};                  // job.toml; "": the snapshot's
  std::vector<std::string> overrides = {};  // --set
  // "dictionary.txt=<path>", for files that are too large for a snapshot.
  std::vector<std::string> files = {};
  bool allows_pipe_command = false;  // allows the program in the snapshot's job.toml
};

// The contents of a record, in the form of model/slots.json.
JsonObject slots_json(const config::DataConfig& data);

struct ModelDescription {
  config::JobConfig job;
  data::Dictionary dictionary;
};

// kUsage: the snapshot and the source give no description, or only a part of it, or the snapshot
// names a program that the source does not allow. kData: a file of the source is not the one that
// training read, or the snapshot's own job.toml names a file outside of the snapshot.
Result<ModelDescription> read_description(const snapshot::SnapshotReader& snapshot,
                                          const DescriptionSource& source);

}  // namespace paddle::inference
