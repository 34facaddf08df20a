#include "engine/snapshot/retention.h"

#include <charconv>
#include <filesystem>
#include <map>
#include <set>
#include <tuple>

#include <fmt/format.h>

#include "base/fd.h"
#include "engine/snapshot/manifest_format.h"

namespace paddle::snapshot {
namespace {

// Returns the pass of a name in the form of pass_name().
std::optional<std::uint64_t> pass_of(const std::string& name) {
  constexpr std::string_view kPrefix = "pass-";
  std::uint64_t pass = 0;
  const char* const end = name.data() + name.size();
  if (!name.starts_with(kPrefix)) return {};
  const auto [at, error] = std::from_chars(name.data() + kPrefix.size(), end, pass);
  if (error != std::errc() || at != end || pass_name(pass) != name) return {};
  return pass;
}

// Removes MANIFEST first, so that a half removed directory is no snapshot.
Status remove_snapshot(const std::string& directory) {
  std::error_code failed;
  std::filesystem::remove(directory + "/MANIFEST", failed);
  if (!failed) std::filesystem::remove_all(directory, failed);
  if (!failed) return {};
  return Error{Errc::kResource, fmt::format("remove {}: {}", directory, failed.message())};
}

}  // namespace

std::string pass_name(std::uint64_t pass) {
  return fmt::format("pass-{:05d}", pass);
}

Result<std::string> newest_snapshot(const std::string& folder) {
  std::error_code failed;
  std::tuple<std::uint64_t, std::uint64_t, std::string> newest;  // passes, step, name
  for (const auto& entry : std::filesystem::directory_iterator(folder, failed)) {
    const std::string name = entry.path().filename();
    if (!name.starts_with("pass-") || name.ends_with(".tmp")) continue;
    const auto text = read_file(entry.path() / "MANIFEST", kManifestBytesMax);
    if (!text) continue;
    const auto manifest = decode_manifest(*text);
    if (!manifest) continue;
    newest = std::max(newest, {manifest->info.pass, manifest->info.step, name});
  }
  if (failed) {
    return Error{Errc::kResource, fmt::format("read {}: {}", folder, failed.message())};
  }
  const std::string& name = std::get<2>(newest);
  return name.empty() ? name : folder + "/" + name;
}

Status keep_newest(const std::string& folder, std::uint64_t pass, std::uint32_t count) {
  std::error_code failed;
  std::map<std::uint64_t, Manifest, std::greater<>> snapshots;  // by pass, the newest first
  std::vector<std::string> stopped;  // snapshots of a stop in a pass that is over now
  for (const auto& entry : std::filesystem::directory_iterator(folder, failed)) {
    const std::string name = entry.path().filename();
    const auto of = pass_of(name);
    const auto stopped_in = pass_of(name.substr(0, name.rfind('-')));
    if (stopped_in && *stopped_in <= pass) stopped.push_back(name);
    if (!of || *of > pass) continue;
    const auto text = read_file(entry.path() / "MANIFEST", kManifestBytesMax);
    if (!text) continue;
    if (auto manifest = decode_manifest(*text)) snapshots.emplace(*of, *std::move(manifest));
  }
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
