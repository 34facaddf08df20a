#include "engine/snapshot/retention.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <set>

#include <fmt/format.h>

#include "base/log.h"
#include "engine/snapshot/reader.h"
#include "engine/snapshot/replacement.h"

namespace paddle::snapshot {
namespace {

constexpr std::string_view kPrefix = "pass-";

// Returns the pass of a name in the form of pass_name(); std::nullopt for other names.
std::optional<std::uint64_t> pass_of(const std::string& name) {
  std::uint64_t pass = 0;
  const char* const end = name.data() + name.size();
  if (!name.starts_with(kPrefix)) return {};
  const auto [at, error] = std::from_chars(name.data() + kPrefix.size(), end, pass);
  if (error != std::errc() || at != end || pass_name(pass) != name) return {};
  return pass;
}

// The folders durably lose their names before their files, so that no partly removed folder looks
// like a snapshot.
Status remove_snapshots(FileSystem& files, const std::string& folder,
                        const std::vector<std::string>& names) {
  if (names.empty()) return {};
  const auto unfinished = [&](const std::string& name) {
    return folder + "/" + name + std::string(kUnfinished);
  };
  for (const std::string& name : names) {
    const std::string path = fmt::format("{}/{}", folder, name);
    PADDLE_TRY_STATUS(clear_leftovers(files, path));
    PADDLE_TRY_STATUS(files.rename(path, unfinished(name)));
  }
  PADDLE_TRY_STATUS(files.sync_directory(folder));
  for (const std::string& name : names) PADDLE_TRY_STATUS(files.remove_all(unfinished(name)));
  return {};
}

// Whether it is "pass-" and a digit, and the folder is finished and was not set aside.
bool is_snapshot_name(std::string_view name) {
  constexpr std::string_view kDigits = "0123456789";
  return name.starts_with(kPrefix) && name.size() > kPrefix.size() &&
         kDigits.find(name[kPrefix.size()]) != std::string_view::npos &&
         !name.ends_with(kUnfinished) && name.find(kDamaged) == std::string_view::npos;
}

Result<Manifest> manifest_of(FileSystem& files, const std::string& directory) {
  PADDLE_TRY(const std::string text, files.read_file(directory + "/MANIFEST", kManifestBytesMax));
  return decode_manifest(text).with(directory);
}

bool has_files(FileSystem& files, const std::string& directory) {
  const auto names = files.list(directory);
  return names && !names->empty();
}

}  // namespace

std::string pass_name(std::uint64_t pass) {
  return fmt::format("pass-{:05d}", pass);
}

Result<std::vector<std::string>> snapshot_names(const std::string& folder, FileSystem& files) {
  PADDLE_TRY(std::vector<std::string> names, files.list(folder));
  std::erase_if(names, [&](const std::string& name) {
    return !is_snapshot_name(name) || !has_files(files, folder + "/" + name);
  });
  return names;
}

Status keep_newest(const std::string& folder, std::uint64_t pass, std::uint32_t count,
                   const std::string& best, FileSystem& files) {
  // INVARIANT: only a readable snapshot replaces others.
  PADDLE_TRY_STATUS(SnapshotReader::check(folder + "/" + pass_name(pass), files));
  std::map<std::uint64_t, Manifest, std::greater<>> snapshots;  // by pass, the newest first
  std::vector<std::string> unwanted;
  std::vector<std::string> unwanted_deltas;
  PADDLE_TRY(const std::vector<std::string> names, files.list(folder));
  for (const std::string& name : names) {
    const std::string path = fmt::format("{}/{}", folder, name);
    const auto of = pass_of(name);
    // The name of a stop within a pass that has ended.
    const auto stopped_in = pass_of(name.substr(0, name.rfind('-')));
    if (stopped_in && *stopped_in <= pass) unwanted.push_back(name);
    if (name.ends_with(kUnfinished)) {
      const std::string finished = name.substr(0, name.size() - kUnfinished.size());
      const auto unfinished = pass_of(finished);
      if (unfinished && *unfinished <= pass) {
        PADDLE_TRY_STATUS(clear_leftovers(files, fmt::format("{}/{}", folder, finished)));
      }
    }
    if (!of || *of > pass || !has_files(files, path)) continue;
    if (auto manifest = manifest_of(files, path)) {
      snapshots.emplace(*of, *std::move(manifest));
    } else {
      log_warning("{}; the snapshot is neither counted nor removed", manifest.error().message);
    }
  }
  std::set<std::string> kept;
  std::uint32_t newest = 0;
  for (const auto& [number, manifest] : snapshots) {
    if (newest++ >= count && pass_name(number) != best) continue;
    kept.insert(pass_name(number));
    if (manifest.info.base) kept.insert(manifest.info.base->name);
  }
  for (const auto& [number, manifest] : snapshots) {
    if (kept.contains(pass_name(number))) continue;
    (manifest.info.base ? unwanted_deltas : unwanted).push_back(pass_name(number));
  }
  PADDLE_TRY_STATUS(remove_snapshots(files, folder, unwanted_deltas));  // before their bases
  return remove_snapshots(files, folder, unwanted);
}

}  // namespace paddle::snapshot
