#include <dirent.h>
#include <glob.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <optional>

#include <fmt/format.h>

#include "engine/config/data_config.h"

namespace paddle::config {
namespace {

// Links to folders above make a pattern's names endless.
constexpr std::uint64_t kNamesMax = 1'000'000;

// glob(3) passes nothing to its callbacks.
thread_local std::uint64_t names_read = 0;
thread_local std::string unreadable;  // "FOLDER: reason"

// A folder that is not there has no files; any other one ends the search.
int note_unreadable(const char* folder, int error) {
  if (error == ENOENT) return 0;
  unreadable = fmt::format("{}: {}", folder, std::strerror(error));
  return 1;
}

struct GlobResult {
  glob_t found{};
  GlobResult() {
    names_read = 0;
    found.gl_opendir = [](const char* path) -> void* {
      if (names_read <= kNamesMax) return ::opendir(path);
      errno = E2BIG;
      return nullptr;
    };
    found.gl_readdir = [](void* folder) -> dirent* {
      return ++names_read > kNamesMax ? nullptr : ::readdir(static_cast<DIR*>(folder));
    };
    found.gl_closedir = [](void* folder) { ::closedir(static_cast<DIR*>(folder)); };
    found.gl_lstat = ::lstat;
    found.gl_stat = ::stat;
  }
  ~GlobResult() { ::globfree(&found); }
};

bool leads_up(std::string_view pattern) {
  return fmt::format("/{}/", pattern).find("/../") != std::string::npos;
}

// In glob(3) this is one "*", so that files at other depths would be left out in silence.
bool has_any_depth(std::string_view pattern) {
  return fmt::format("/{}/", pattern).find("/**/") != std::string::npos;
}

// Returns N of "train.txt-N", "train.txt-N.gz" (.zst, .bz2, .xz) or "train-N.npz".
std::optional<std::uint64_t> number_of(std::string_view file) {
  for (const std::string_view ending : {".gz", ".zst", ".bz2", ".xz", ".npz"}) {
    if (file.ends_with(ending)) file.remove_suffix(ending.size());
  }
  const std::size_t dash = file.rfind('-');
  if (dash == std::string_view::npos || dash + 1 == file.size()) return {};
  std::uint64_t number = 0;
  const char* const end = file.data() + file.size();
  const auto [at, error] = std::from_chars(file.data() + dash + 1, end, number);
  if (error != std::errc() || at != end) return {};
  return number;
}

// The workspace's own name is no pattern, whatever characters it has.
std::string escape_pattern(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    if (std::string_view("*?[]\\").find(c) != std::string_view::npos) escaped += '\\';
    escaped += c;
  }
  return escaped;
}

Result<std::vector<std::string>> matching_files(const std::string& workspace,
                                                const std::string& pattern) {
  if (leads_up(pattern)) {
    return Error{Errc::kUsage, fmt::format("'..' is not allowed in the pattern '{}'", pattern),
                 "name a folder of the workspace, or begin with '/'"};
  }
  if (has_any_depth(pattern)) {
    return Error{
        Errc::kUsage,
        fmt::format("'**' is not known in the pattern '{}': it would be one folder", pattern),
        "write '*' for each folder, as data/*/*.csv, with the files at one depth"};
  }
  const std::string full =
      pattern.starts_with('/') ? pattern : escape_pattern(workspace) + "/" + pattern;
  GlobResult result;
  const int failed = ::glob(full.c_str(), GLOB_ALTDIRFUNC, note_unreadable, &result.found);
  if (names_read > kNamesMax) {
    return Error{Errc::kData,
                 fmt::format("'{}' in {} reads more than {} names", pattern, workspace, kNamesMax),
                 "write a pattern with fewer '*'"};
  }
  std::vector<std::string> files;
  std::string folder;
  if (failed == GLOB_NOMATCH) return files;
  if (failed != 0) {
    return Error{Errc::kData,
                 fmt::format("cannot look for '{}' in {}: {}", pattern, workspace, unreadable),
                 "let this user read the folder, or name another one"};
  }
  for (std::size_t i = 0; i < result.found.gl_pathc; ++i) {
    struct stat status {};
    const char* const path = result.found.gl_pathv[i];
    if (::stat(path, &status) != 0) continue;
    if (S_ISREG(status.st_mode)) files.emplace_back(path);
    if (S_ISDIR(status.st_mode)) folder = path;
  }
  if (files.empty() && !folder.empty()) {
    return Error{
        Errc::kData, fmt::format("'{}' in {} matches no file, but a folder", pattern, workspace),
        fmt::format("name the files in it: {}{}*", pattern, pattern.ends_with('/') ? "" : "/")};
  }
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

Result<DataShare> data_share(const std::string& workspace, const std::string& glob,
                             std::uint32_t trainer_id, std::uint32_t num_trainers,
                             bool global_shuffle) {
  PADDLE_TRY(auto files, matching_files(workspace, glob));
  return deal_files(std::move(files), trainer_id, num_trainers, global_shuffle);
}

Result<DataShare> deal_files(std::vector<std::string> files, std::uint32_t trainer_id,
                             std::uint32_t num_trainers, bool global_shuffle) {
  if (trainer_id >= num_trainers) {
    return Error{Errc::kUsage,
                 fmt::format("trainer {} of {} trainers does not exist", trainer_id, num_trainers)};
  }
  DataShare share;
  share.files = std::move(files);
  const bool numbered = std::ranges::all_of(
      share.files, [](const std::string& file) { return number_of(file).has_value(); });
  if (!numbered || global_shuffle) {
    share.records_split = num_trainers > 1;
    return share;
  }
  std::erase_if(share.files, [&](const std::string& file) {
    return number_of(file).value_or(0) % num_trainers != trainer_id;
  });
  return share;
}

}  // namespace paddle::config
