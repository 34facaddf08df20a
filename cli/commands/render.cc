#include <filesystem>

#include <fmt/format.h>

#include "base/fd.h"
#include "cli/commands/commands.h"
#include "cli/console/json.h"
#include "cli/workspace/platform_template.h"
#include "cli/workspace/workspace.h"
#include "engine/config/job_config.h"

namespace paddle::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kTemplateBytesMax = 1U << 20U;
// Small, with a shell, awk and getent; the engine itself is static.
constexpr const char* kImage = "debian:12-slim";

}  // namespace

Status run_render(Context& context, const CommandOptions& options) {
  PADDLE_TRY(const Platform platform, platform_of(options.platform));
  const std::string workspace =
      (fs::path(context.directory) / options.workspace / "").lexically_normal().parent_path();
  PADDLE_TRY_STATUS(check_workspace(workspace));
  PADDLE_TRY(const config::JobConfig job,
             config::read_job(workspace + "/job.toml", options.overrides));
  const std::string file =
      fmt::format("{}/templates/platforms/{}", context.share, template_file(platform));
  const auto text = read_file(file, kTemplateBytesMax);
  if (!text || context.share.empty()) {
    return Error{Errc::kUsage, "no templates/platforms beside this paddlectl",
                 "they are in share/paddlectl of an installation, and in a source tree"};
  }
  const PlatformJob rendered{
      .name = options.job.empty() ? fs::path(workspace).filename().string() : options.job,
      .workspace = workspace,
      .engine = context.engine,
      .trainers = std::max(1U, options.trainers),
      .pservers = std::max(1U, options.pservers),
      .overrides = options.overrides,
      .image = options.image.empty() ? kImage : options.image};
  PADDLE_TRY(const std::string made, fill_template(platform, *text, rendered));
  if (context.console.json()) {
    context.console.json_line(Json::object({{"platform", options.platform}, {"text", made}}));
  } else {
    context.console.raw(made);
  }
  return {};
}

}  // namespace paddle::cli
