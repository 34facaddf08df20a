#include "base/version.h"

#include <fmt/format.h>

#include "cli/commands/commands.h"

namespace paddle::cli {
namespace {

Status run(Context& context) {
  context.console.result(Json::object({{"version", kProgramVersion}}),
                         fmt::format("paddlectl {}", kProgramVersion));
  return {};
}

}  // namespace

Command version_command() {
  return {"version", "print the version of paddlectl", "  paddlectl version",
          [] { return invocation(run); }};
}

}  // namespace paddle::cli
