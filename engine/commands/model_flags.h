// Flags of the commands that use a saved model.
#pragma once

#include <string>
#include <vector>

#include "engine/commands/flags.h"
#include "engine/math/allocator.h"
#include "engine/model/description.h"

namespace paddle::commands {

// Opens the snapshot `given`; if that is "", the error's hint is `example`. kUsage: it is not a
// snapshot; the error names the snapshots in it.
Result<snapshot::SnapshotReader> open_snapshot(const std::string& given,
                                               const std::string& example);

// For end_when_out_of_memory().
constexpr const char* kMemoryAdvice =
    "all parameters of the network are in memory: use a larger machine";

// --config, --set and --model_file.
void declare_description(FlagSet& flags, inference::DescriptionSource& source);

struct ModelFlags {
  std::string snapshot;
  std::string data;
  std::string workspace = ".";
  inference::DescriptionSource source;

  void declare(FlagSet& flags);
  Result<snapshot::SnapshotReader> open(const std::string& command) const;
  // kUsage: `data` is empty, and the job holds out nothing for tests.
  Status check_data(const config::JobConfig& job) const;
};

// Prints "paddle: warning: <text>" on stderr, or nothing if the text is empty.
void warn(const std::string& text);

}  // namespace paddle::commands
