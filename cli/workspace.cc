#include "cli/workspace.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include <fmt/format.h>

namespace paddle::cli {
namespace {

namespace fs = std::filesystem;

// data_share's files relative to the workspace; those elsewhere are mounted on the nodes and stay
// where they are.
Result<std::vector<std::string>> share_of(const Workspace& workspace,
                                          const config::DataConfig& data, const std::string& glob,
                                          std::uint32_t trainer, std::uint32_t trainers,
                                          bool* split) {
  std::vector<std::string> relative;
  if (glob.empty() || glob.front() == '/') return relative;
  PADDLE_TRY(const config::DataShare share,
             config::data_share(workspace.path, glob, trainer, trainers, data.global_shuffle));
  if (split != nullptr) *split = *split || share.records_split;
  for (const std::string& file : share.files) {
    const std::string inside = fs::path(file).lexically_relative(workspace.path).string();
    if (inside.empty() || inside.starts_with("..")) {
      return Error{Errc::kData, fmt::format("data file {} is outside the workspace", file),
                   "name files inside the workspace, or an absolute path that every node mounts"};
    }
    relative.push_back(inside);
  }
  return relative;
}

// Data that would train or test on nothing is a mistake, told before hours of work.
Status check_data(const Workspace& workspace, std::string_view key, const std::string& glob,
                  const std::set<std::string>& files) {
  if (glob.empty() || glob.front() == '/') return {};
  const bool has_bytes = std::ranges::any_of(files, [&](const std::string& file) {
    std::error_code ignored;
    return fs::file_size(fs::path(workspace.path) / file, ignored) > 0;
  });
  if (has_bytes) return {};
  return Error{Errc::kData,
               files.empty() ? fmt::format("no file matches '{}' in {}", glob, workspace.path)
                             : fmt::format("every file that matches '{}' in {} is empty", glob,
                                           workspace.path),
               fmt::format("prepare the data first, or correct [data] {}", key)};
}

Status walk(Workspace& workspace, const std::set<std::string>& data) {
  std::error_code error;
  fs::recursive_directory_iterator at(workspace.path, error);
  for (; !error && at != fs::recursive_directory_iterator(); at.increment(error)) {
    const std::string name = at->path().filename().string();
    const bool hidden = name.starts_with('.');
    if (at->is_directory(error)) {
      if (hidden || (at.depth() == 0 && name == "output")) at.disable_recursion_pending();
      continue;
    }
    std::error_code unreadable;  // a dangling link is no file
    if (hidden || !at->is_regular_file(unreadable)) continue;
    const std::string inside = at->path().lexically_relative(workspace.path).string();
    if (data.contains(inside)) continue;
    workspace.shared.push_back(inside);
    if (workspace.shared.size() > kWorkspaceFilesMax) {
      return Error{
          Errc::kResource,
          fmt::format("workspace {} has over {} files", workspace.path, kWorkspaceFilesMax),
          "point paddlectl train at the folder that holds job.toml only"};
    }
  }
  if (error)
    return Error{Errc::kData, fmt::format("reading {}: {}", workspace.path, error.message()), ""};
  std::ranges::sort(workspace.shared);
  return {};
}

}  // namespace

Status check_workspace(const std::string& path) {
  std::error_code error;
  if (fs::is_regular_file(fs::path(path) / "job.toml", error)) return {};
  return Error{Errc::kUsage, fmt::format("no job.toml in '{}'", path),
               "name the workspace: paddlectl train templates/word2vec"};
}

Result<Workspace> scan_workspace(const std::string& path, const config::JobConfig& job,
                                 std::uint32_t trainers) {
  PADDLE_TRY_STATUS(check_workspace(path));
  std::error_code error;
  const fs::path absolute = fs::canonical(path, error);
  Workspace workspace;
  workspace.path = absolute.string();
  workspace.name = absolute.filename().string();
  workspace.mounted = job.data.train.starts_with('/');
  std::set<std::string> data;
  for (std::uint32_t trainer = 0; trainer < trainers; ++trainer) {
    PADDLE_TRY(auto share, share_of(workspace, job.data, job.data.train, trainer, trainers,
                                    &workspace.records_split));
    data.insert(share.begin(), share.end());
    workspace.shares.push_back(std::move(share));
  }
  PADDLE_TRY_STATUS(check_data(workspace, "train", job.data.train, data));
  PADDLE_TRY(workspace.test, share_of(workspace, job.data, job.data.test, 0, 1, nullptr));
  PADDLE_TRY_STATUS(
      check_data(workspace, "test", job.data.test, {workspace.test.begin(), workspace.test.end()}));
  data.insert(workspace.test.begin(), workspace.test.end());
  PADDLE_TRY_STATUS(walk(workspace, data));
  return workspace;
}

}  // namespace paddle::cli
