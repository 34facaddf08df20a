#include "cli/job/share_folder.h"

#include <algorithm>
#include <array>
#include <filesystem>

#include <fmt/format.h>

#include "base/fd.h"
#include "base/text.h"
#include "cli/job/workspace.h"

namespace paddle::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kReadmeBytesMax = 1U << 20U;
// Folders that exist in a template if it was used in place.
constexpr std::array<std::string_view, 2> kUsedFolders = {"data", "output"};

Error no_share(const std::string& share) {
  return {
      Errc::kUsage,
      share.empty() ? "cannot find the templates of this paddlectl" : share + " has no templates",
      "they are in share/paddlectl of an installation, and in a source tree"};
}

Error failed(const fs::path& path, const std::error_code& error) {
  return {Errc::kResource, fmt::format("{}: {}", path.string(), error.message()), ""};
}

// The template's files, relative to its folder.
Result<std::vector<std::string>> files_of(const fs::path& source) {
  std::vector<std::string> files;
  std::error_code error;
  fs::recursive_directory_iterator entry(source, error), end;
  for (; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name.starts_with('.') || std::ranges::find(kUsedFolders, name) != kUsedFolders.end()) {
      entry.disable_recursion_pending();
      continue;
    }
    if (!entry->is_regular_file(error)) continue;
    files.push_back(entry->path().lexically_relative(source).string());
    if (files.size() > kTemplateFilesMax)
      return Error{Errc::kResource,
                   fmt::format("{}: over {} files", source.string(), kTemplateFilesMax), ""};
  }
  if (error) return failed(source, error);
  std::ranges::sort(files);
  // job.toml comes last, because without it the folder is no workspace yet.
  std::stable_partition(files.begin(), files.end(),
                        [](const std::string& file) { return file != kJobFile; });
  return files;
}

Status copy_files(const fs::path& source, const std::vector<std::string>& files,
                  const fs::path& target) {
  std::error_code error;
  fs::create_directories(target, error);
  if (error) return failed(target, error);
  for (const std::string& file : files) {
    fs::create_directories((target / file).parent_path(), error);
    if (!error) fs::copy_file(source / file, target / file, error);
    if (error) return failed(target / file, error);
  }
  return {};
}

}  // namespace

std::string find_share_folder(const std::string& folder_of_program) {
  const fs::path here(folder_of_program);
  std::error_code ignored;
  for (const fs::path& share : {here / "../share/paddlectl", here / "../../.."}) {
    if (fs::is_directory(share / "templates", ignored) &&
        fs::is_directory(share / "clusters", ignored)) {
      return share.lexically_normal().string();
    }
  }
  return "";
}

Result<std::vector<std::string>> template_names(const std::string& share) {
  std::vector<std::string> names;
  std::error_code error;
  fs::directory_iterator entry(fs::path(share) / "templates", error), end;
  if (share.empty() || error) return no_share(share);
  for (; !error && entry != end; entry.increment(error)) {
    if (fs::is_regular_file(entry->path() / kJobFile, error))
      names.push_back(entry->path().filename().string());
  }
  std::ranges::sort(names);
  return names;
}

std::string template_summary(const std::string& share, const std::string& name) {
  const auto text =
      read_file(fmt::format("{}/templates/{}/README.md", share, name), kReadmeBytesMax);
  if (!text) return "";
  std::string line = text->substr(0, text->find('\n'));
  if (const std::size_t colon = line.find(": "); colon != line.npos) line.erase(0, colon + 2);
  return line;
}

Result<std::vector<std::string>> copy_template(const std::string& share, const std::string& name,
                                               const std::string& target) {
  PADDLE_TRY(const std::vector<std::string> names, template_names(share));
  if (std::ranges::find(names, name) == names.end()) {
    const std::vector<std::string_view> known(names.begin(), names.end());
    const std::string near = nearest(name, known);
    return Error{Errc::kUsage,
                 fmt::format("unknown template '{}'{}", name,
                             near.empty() ? "" : fmt::format(", did you mean '{}'?", near)),
                 "list the templates: paddlectl init --list"};
  }
  std::error_code error;
  const fs::path to = fs::path(target).lexically_normal();
  if (fs::exists(to, error) && (!fs::is_directory(to, error) || !fs::is_empty(to, error))) {
    return Error{Errc::kUsage, to.string() + " exists and is not empty",
                 "name a new folder: paddlectl init --template " + name + " <folder>"};
  }
  const fs::path source = fs::path(share) / "templates" / name;
  PADDLE_TRY(const std::vector<std::string> files, files_of(source));
  const Status copied = copy_files(source, files, to);
  if (copied) return files;
  std::error_code ignored;
  for (const std::string& file : files) fs::remove(to / file, ignored);
  return copied.error();
}

}  // namespace paddle::cli
