#include "engine/snapshot/retention.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>
#include <set>

#include <fmt/format.h>

#include "base/fd.h"
#include "base/log.h"
#include "engine/snapshot/manifest_format.h"

namespace paddle::snapshot {
namespace {

constexpr std::string_view kPrefix = "pass-";
constexpr std::string_view kUnfinished = ".tmp";  // SnapshotWriter's, and of what is being removed

// Returns the pass of a name in the form of pass_name().
std::optional<std::uint64_t> pass_of(const std::string& name) {
  std::uint64_t pass = 0;
  const char* const end = name.data() + name.size();
  if (!name.starts_with(kPrefix)) return {};
  const auto [at, error] = std::from_chars(name.data() + kPrefix.size(), end, pass);
  if (error != std::errc() || at != end || pass_name(pass) != name) return {};
  return pass;
}

// A folder loses its name before its files, so that nothing half removed looks like a snapshot.
Status remove_snapshot(const std::string& directory) {
  const std::string unfinished = directory + std::string(kUnfinished);
  std::error_code failed;
  std::filesystem::remove_all(unfinished, failed);
  if (!failed) std::filesystem::rename(directory, unfinished, failed);
  if (!failed) std::filesystem::remove_all(unfinished, failed);
  if (!failed) return {};
  return Error{Errc::kResource, fmt::format("remove {}: {}", directory, failed.message())};
}

// True for "pass-" and a digit, but not for a folder that was never finished or was set aside.
bool is_snapshot_name(std::string_view name) {
  constexpr std::string_view kDigits = "0123456789";
  return name.starts_with(kPrefix) && name.size() > kPrefix.size() &&
         kDigits.find(name[kPrefix.size()]) != std::string_view::npos &&
         !name.ends_with(kUnfinished) && name.find(kDamaged) == std::string_view::npos;
}

Result<Manifest> manifest_of(const std::string& directory) {
  PADDLE_TRY(const std::string text, read_file(directory + "/MANIFEST", kManifestBytesMax));
  return decode_manifest(text).with(directory);
}

}  // namespace

std::string pass_name(std::uint64_t pass) {
  return fmt::format("pass-{:05d}", pass);
}

Result<std::vector<std::string>> snapshot_names(const std::string& folder) {
  std::error_code failed;
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder, failed)) {
    const std::string name = entry.path().filename();
    std::error_code ignored;
    if (!is_snapshot_name(name) || !entry.is_directory(ignored)) continue;
    if (!std::filesystem::is_empty(entry.path(), ignored)) names.push_back(name);
  }
  if (failed) {
    return Error{Errc::kResource, fmt::format("read {}: {}", folder, failed.message())};
  }
  std::ranges::sort(names);
  return names;
}

Status keep_newest(const std::string& folder, std::uint64_t pass, std::uint32_t count) {
  std::error_code failed;
  std::map<std::uint64_t, Manifest, std::greater<>> snapshots;  // by pass, the newest first
  std::vector<std::string> unwanted;  // never finished, or removed in part
  std::vector<std::string> stopped;   // snapshots of a stop in a pass that is over now
  for (const auto& entry : std::filesystem::directory_iterator(folder, failed)) {
    const std::string name = entry.path().filename();
    const auto of = pass_of(name);
    const auto stopped_in = pass_of(name.substr(0, name.rfind('-')));
    if (stopped_in && *stopped_in <= pass) stopped.push_back(name);
    if (name.ends_with(kUnfinished)) {
      const auto unfinished = pass_of(name.substr(0, name.size() - kUnfinished.size()));
      if (unfinished && *unfinished <= pass) unwanted.push_back(entry.path());
    }
    std::error_code ignored;
    if (!of || *of > pass || std::filesystem::is_empty(entry.path(), ignored)) continue;
    if (auto manifest = manifest_of(entry.path())) {
      snapshots.emplace(*of, *std::move(manifest));
    } else {
      log_warning("{}; the snapshot is neither counted nor removed", manifest.error().message);
    }
  }
  for (const std::string& path : unwanted) std::filesystem::remove_all(path, failed);
  std::set<std::string> kept;
  std::uint32_t newest = 0;
  for (const auto& [number, manifest] : snapshots) {
    if (newest++ == count) break;
    kept.insert(pass_name(number));
    if (manifest.info.base) kept.insert(manifest.info.base->name);
  }
  for (const auto& [number, manifest] : snapshots) {
    if (kept.contains(pass_name(number))) continue;
    PADDLE_TRY_STATUS(remove_snapshot(folder + "/" + pass_name(number)));
  }
  for (const std::string& name : stopped) PADDLE_TRY_STATUS(remove_snapshot(folder + "/" + name));
  return {};
}

}  // namespace paddle::snapshot
