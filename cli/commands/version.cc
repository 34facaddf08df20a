#include "base/version.h"

#include <fmt/format.h>

#include "cli/commands/commands.h"

namespace paddle::cli {
namespace {

Status run(Context& context) {
  if (context.console.json()) {
    context.console.json_line(Json::object({{"version", kProgramVersion}}));
  } else {
    context.console.result(fmt::format("paddlectl {}", kProgramVersion));
  }
  return {};
}

}  // namespace

Command version_command() {
  return {"version", "print the version of paddlectl", "  paddlectl version",
          [] { return invocation(run); }};
}

}  // namespace paddle::cli
