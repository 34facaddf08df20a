#include "engine/commands/model_flags.h"

#include <iostream>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "engine/commands/command.h"
#include "engine/snapshot/retention.h"

namespace paddle::commands {
namespace {

std::string without_trailing_slash(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

}  // namespace

Result<snapshot::SnapshotReader> open_snapshot(const std::string& given,
                                               const std::string& example) {
  if (given.empty()) return Error{Errc::kUsage, "--snapshot is missing", example};
  const std::string directory = without_trailing_slash(given);
  snapshot::FileSystem& files = snapshot::kernel_file_system();
  if (!files.exists(directory))
    return Error{Errc::kUsage, directory + ": there is no such folder", example};
  const auto names = snapshot::snapshot_names(directory);
  if (!files.exists(directory + "/MANIFEST") && names && !names->empty()) {
    return Error{
        Errc::kUsage,
        fmt::format("{} is not a snapshot but contains {}", directory, fmt::join(*names, ", ")),
        fmt::format("--snapshot={}/{}", directory, names->back())};
  }
  return snapshot::SnapshotReader::open(directory);
}

void declare_description(FlagSet& flags, inference::DescriptionSource& source) {
  flags.text("config", "job.toml in place of the snapshot's own, for one that has none",
             source.config);
  flags.repeated("set", "KEY=VALUE in place of the job's, e.g. data.on_bad_record=skip; repeatable",
                 source.overrides);
  flags.repeated("model_file",
                 "NAME=PATH of a file that was too large for the snapshot, e.g. "
                 "dictionary.txt=words.txt; repeatable",
                 source.files);
}

void ModelFlags::declare(FlagSet& flags) {
  flags.text("snapshot", "a pass-0000N folder", snapshot);
  flags.text("data", "files of records in the format of the job: a pattern, or - for stdin", data);
  flags.text("workspace",
             "folder of the data, in which the pattern is looked up and programs of [data] run",
             workspace);
  declare_description(flags, source);
  flags.boolean("allow_pipe_command",
                "run the data.pipe_command and data.command of the snapshot; --set or --config can "
                "replace them",
                source.allows_pipe_command);
}

Result<snapshot::SnapshotReader> ModelFlags::open(const std::string& command) const {
  return open_snapshot(snapshot, fmt::format("paddle {} --snapshot=output/pass-00000", command));
}

Status ModelFlags::check_data(const config::JobConfig& job) const {
  if (!data.empty() || !job.data.test.empty() || job.data.test_fraction > 0) return {};
  return Error{Errc::kUsage, "the job holds out no records for tests",
               "--data=GLOB names files of records"};
}

void warn(const std::string& text) {
  if (!text.empty()) std::cerr << "paddle: warning: " << text << "\n";
}

}  // namespace paddle::commands
