#include "base/version.h"

#include <fmt/format.h>

#include "cli/commands/commands.h"
#include "cli/console/json.h"

namespace paddle::cli {

Status run_version(Context& context, const CommandOptions&) {
  if (context.console.json()) {
    context.console.json_line(Json::object({{"version", kProgramVersion}}));
  } else {
    context.console.result(fmt::format("paddlectl {}", kProgramVersion));
  }
  return {};
}

}  // namespace paddle::cli
