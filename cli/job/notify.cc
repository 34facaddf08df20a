#include "cli/job/notify.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "remote/launcher/trusted_file.h"

namespace paddle::cli {
namespace {

constexpr std::string_view kBeside = "./";

// The path without "./", which is how a workspace lists it.
std::string in_workspace(const std::string& argument) {
  return std::filesystem::path(argument).lexically_normal().string();
}

// The node runs the program in the workspace, so a path is relative to it.
bool is_in_workspace(const std::string& program) {
  return program.find('/') != program.npos && !program.starts_with('/') &&
         !program.starts_with("{root}");
}

}  // namespace

std::string user_notify_file() {
  const auto variable = [](const char* name) {
    const char* const value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  };
  std::string folder = variable("XDG_CONFIG_HOME");
  if (!folder.starts_with('/')) {  // the specification of XDG: others are ignored
    if (variable("HOME").empty()) return "";
    folder = variable("HOME") + "/.config";
  }
  return folder + "/paddlectl/notify.toml";
}

Status check_notify(const config::JobConfig& job, const std::string& folder,
                    const std::vector<std::string>& overrides, const Workspace& workspace) {
  if (!job.notify || !is_in_workspace(job.notify->command.front())) return {};
  const std::string& program = job.notify->command.front();
  const std::string file = in_workspace(program);
  const std::string path = workspace.path + "/" + file;
  const auto mistake = [&](const std::string& message, const std::string& hint) {
    return config::notify_mistake(folder + "/job.toml", overrides, true, message, hint);
  };
  std::error_code ignored;
  if (file.starts_with("../")) {
    return mistake(fmt::format("'{}' is outside the workspace", program),
                   "copy it into the workspace; or name a program of the nodes by its whole path");
  }
  if (!std::filesystem::is_regular_file(path, ignored)) {
    return mistake(fmt::format("the workspace has no file '{}'", file),
                   "put it there; or name a program of the nodes without './'");
  }
  const bool is_pushed = std::ranges::find(workspace.common, file) != workspace.common.end() ||
                         workspace.links.contains(file);
  if (!is_pushed) {
    return mistake(fmt::format("'{}' is not pushed", file),
                   ".paddleignore leaves it out, or its name begins with '.'");
  }
  if (::access(path.c_str(), X_OK) != 0)
    return mistake(fmt::format("'{}' is not executable", file), "chmod +x " + path);
  return {};
}

Result<std::optional<JobNotify>> find_notify(const config::JobConfig& job,
                                             const std::string& user_file) {
  if (job.notify) return std::optional(JobNotify{*job.notify});
  std::error_code ignored;
  // A link to nowhere, or a file that cannot be read, is a mistake.
  const auto status = std::filesystem::symlink_status(user_file, ignored);
  if (user_file.empty() || status.type() == std::filesystem::file_type::not_found)
    return std::optional<JobNotify>();
  PADDLE_TRY_STATUS(remote::check_trusted(user_file));
  JobNotify notify;
  PADDLE_TRY(notify.config, config::read_notify_file(user_file));
  const std::filesystem::path folder = std::filesystem::path(user_file).parent_path();
  std::set<std::string> names;
  for (const std::string& argument : notify.config.command) {
    if (!argument.starts_with(kBeside) || notify.files.contains(argument)) continue;
    const std::string file = (folder / argument).lexically_normal().string();
    const auto mistake = [&](const std::string& message, const std::string& hint) {
      return config::notify_mistake(user_file, {}, false, message, hint);
    };
    if (!std::filesystem::is_regular_file(file, ignored)) {
      return mistake(fmt::format("no file '{}' beside it", argument),
                     "put it there; or name a program of the nodes without './'");
    }
    if (!names.insert(std::filesystem::path(file).filename().string()).second)
      return mistake("two files have one name", "rename one: they lie in one folder on the nodes");
    if (argument == notify.config.command.front() && ::access(file.c_str(), X_OK) != 0)
      return mistake(fmt::format("'{}' is not executable", argument), "chmod +x " + file);
    PADDLE_TRY_STATUS(remote::check_trusted(file));
    notify.files.emplace(argument, file);
  }
  return std::optional(std::move(notify));
}

}  // namespace paddle::cli
