// `paddle export`: one parameter of a snapshot as text.
#include <cstdio>
#include <memory>

#include "engine/commands/command.h"
#include "engine/snapshot/export_text.h"

namespace paddle::commands {
namespace {

struct ExportOptions {
  std::string snapshot;
  std::string parameter;
};

Status run_export(const ExportOptions& options) {
  if (options.snapshot.empty() || options.parameter.empty()) {
    return Error{Errc::kUsage, "export needs --snapshot and --parameter",
                 "paddle export --snapshot=output/pass-00000 --parameter=_proj"};
  }
  return snapshot::export_text(options.snapshot, options.parameter, stdout);
}

std::function<Status()> declare(FlagSet& flags) {
  const auto options = std::make_shared<ExportOptions>();
  flags.text("snapshot", "a pass-0000N folder", options->snapshot);
  flags.text("parameter", "its name, as in the snapshot's MANIFEST", options->parameter);
  return [options] { return run_export(*options); };
}

}  // namespace

const Command kExportCommand{
    "export", "write a snapshot's parameter as text: \"<row id> <value> ...\" a line",
    "usage: paddle export --snapshot=DIR --parameter=NAME\n", declare};

}  // namespace paddle::commands
