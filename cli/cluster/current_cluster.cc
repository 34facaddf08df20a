#include "cli/cluster/current_cluster.h"

#include <filesystem>

#include <fmt/format.h>

#include "base/fd.h"

namespace paddle::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kPathBytesMax = 4096;
constexpr const char* kMadeMark =
    ".paddlectl-made";  // left by bootstrap: teardown may remove the folder

fs::path state_folder(const std::string& directory) {
  return fs::path(directory) / ".paddlectl";
}

Result<std::string> current(const std::string& directory) {
  PADDLE_TRY(std::string text,
             read_file((state_folder(directory) / "current").string(), kPathBytesMax));
  while (text.ends_with('\n')) text.pop_back();
  return text;
}

}  // namespace

Status remember_cluster(const std::string& directory, const std::string& file) {
  std::error_code error;
  fs::create_directories(state_folder(directory), error);
  if (error) {
    return Error{Errc::kResource,
                 fmt::format("create {}: {}", state_folder(directory).string(), error.message()),
                 ""};
  }
  return replace_file((state_folder(directory) / "current").string(), as_bytes(file + "\n"), 0644);
}

void forget_cluster(const std::string& directory, const std::string& file) {
  if (const auto known = current(directory); !known || *known != file) return;
  std::error_code ignored;
  fs::remove(state_folder(directory) / "current", ignored);
  fs::remove(state_folder(directory), ignored);
  // The folder may also be the workdir of a local node, when the cluster is used in $HOME. Its mark
  // says that bootstrap made it; teardown left it because `current` was in it.
  const fs::path mark = state_folder(directory) / kMadeMark;
  if (!fs::exists(mark, ignored) || fs::exists(state_folder(directory) / "current", ignored))
    return;
  const fs::directory_iterator entries(state_folder(directory), ignored);
  if (std::distance(begin(entries), end(entries)) != 1) return;
  fs::remove(mark, ignored);
  fs::remove(state_folder(directory), ignored);
}

Result<ClusterSpec> choose_cluster(const std::string& directory, const std::string& asked) {
  if (!asked.empty()) {
    const fs::path path = fs::path(directory) / asked;
    std::error_code ignored;
    if (!fs::is_regular_file(path, ignored)) {
      return Error{Errc::kUsage, fmt::format("no cluster file '{}'", asked),
                   "paddlectl init writes one to edit: paddlectl init " + asked};
    }
    return read_cluster(path.lexically_normal().string());
  }
  const auto known = current(directory);
  if (!known) {
    return Error{Errc::kUsage, "no current cluster in this directory",
                 "run `paddlectl up <cluster file>` here first, or pass --cluster <file>"};
  }
  auto cluster = read_cluster(*known);
  if (!cluster) return std::move(cluster).error().with("the current cluster (.paddlectl/current)");
  return cluster;
}

}  // namespace paddle::cli
