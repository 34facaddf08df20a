// A job.toml that needs no workspace, as snapshots keep it: with its --set values in it, and with
// plain names for the files that its network depends on.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace paddle::config {

// The dictionary, or counts of classes.
struct JobFile {
  std::string name;  // in the text: "dictionary.txt", "counts.txt", "counts-1.txt"
  std::string path;
};

struct JobDescription {
  std::string text;
  std::vector<JobFile> files;
};

// Of the job at `path`, which read_job() takes. kUsage.
Result<JobDescription> describe_job(const std::string& path,
                                    const std::vector<std::string>& overrides);

}  // namespace paddle::config
