#include "engine/snapshot/resume_point.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/log.h"
#include "engine/snapshot/replacement.h"
#include "engine/snapshot/retention.h"

namespace paddle::snapshot {
namespace {

constexpr std::string_view kEarlier = "earlier-";

// The progress of a snapshot: by its MANIFEST or, if that cannot be read, by its name.
struct Candidate {
  std::uint64_t passes = 0;
  std::uint64_t step = 0;
  std::string name;
  auto operator<=>(const Candidate&) const = default;
};

// "pass-00007" is the end of pass 7; "pass-00007-000120" is a stop within it.
Candidate by_name(const std::string& name) {
  std::uint64_t pass = 0;
  const char* const begin = name.data() + name.find('-') + 1;
  const char* const end = name.data() + name.size();
  const char* const rest = std::from_chars(begin, end, pass).ptr;
  return {rest == end ? pass + 1 : pass, std::numeric_limits<std::uint64_t>::max(), name};
}

Candidate candidate(FileSystem& files, const std::string& folder, const std::string& name) {
  const auto text = files.read_file(folder + "/" + name + "/MANIFEST", kManifestBytesMax);
  if (!text) return by_name(name);
  const auto manifest = decode_manifest(*text);
  if (!manifest) return by_name(name);
  return {manifest->info.pass, manifest->info.step, name};
}

// The first of "<path>", "<path>-2", ... that does not exist.
std::string free_name(FileSystem& files, const std::string& path) {
  std::string name = path;
  for (int i = 2; files.exists(name); ++i) name = fmt::format("{}-{}", path, i);
  return name;
}

struct Damage {
  std::string name;
  Error error;
};

Status set_aside(FileSystem& files, const std::string& folder, const std::vector<Damage>& damaged) {
  for (const Damage& one : damaged) {
    const std::string path = folder + "/" + one.name;
    const std::string to = free_name(files, path + std::string(kDamaged));
    PADDLE_TRY_STATUS(files.rename(path, to));
    log_warning("{}; it is renamed to {}", one.error.message, to);
  }
  return damaged.empty() ? Status() : files.sync_directory(folder);
}

// For example "pass-00001, since pass-00002 is damaged: MANIFEST: ...".
std::string describe(const std::string& folder, const std::string& taken,
                     const std::vector<Damage>& damaged) {
  if (damaged.empty()) return "";
  std::vector<std::string> names;
  for (const Damage& one : damaged) names.push_back(one.name);
  std::string why = damaged.front().error.message;
  for (std::size_t at = 0; (at = why.find(folder + "/", at)) != std::string::npos;)
    why.erase(at, folder.size() + 1);
  if (why.starts_with(damaged.front().name + ": ")) why.erase(0, damaged.front().name.size() + 2);
  return fmt::format("{}, since {} {} damaged: {}", taken, fmt::join(names, ", "),
                     names.size() == 1 ? "is" : "are", why);
}

// Adds the damaged snapshots whose name stands for more progress than `taken` has, but whose
// MANIFEST, which belongs to another snapshot, has less.
void add_disguised(FileSystem& files, const std::string& folder,
                   const std::vector<std::string>& names, const std::string& taken,
                   std::vector<Damage>& damaged) {
  for (const std::string& name : names) {
    if (by_name(name).passes <= by_name(taken).passes ||
        std::ranges::find(damaged, name, &Damage::name) != damaged.end()) {
      continue;
    }
    auto snapshot = SnapshotReader::open(folder + "/" + name, files);
    if (!snapshot && snapshot.error().code == Errc::kData)
      damaged.push_back({name, std::move(snapshot).error()});
  }
}

// Files beside the snapshots: the name of the best one, and the results of tests after passes.
constexpr std::array<const char*, 2> kAboutSnapshots{"BEST", "TESTS"};

// Moves all snapshots to "<to>.tmp", then renames that to `to`. Each step is durable before the
// next.
Status move_all(FileSystem& files, const std::string& folder, const std::string& to) {
  const std::string unfinished = to + std::string(kUnfinished);
  PADDLE_TRY_STATUS(files.sync_directory(folder));
  PADDLE_TRY(std::vector<std::string> names, snapshot_names(folder, files));
  for (const char* const name : kAboutSnapshots) {
    if (files.exists(fmt::format("{}/{}", folder, name))) names.emplace_back(name);
  }
  for (const std::string& name : names) {
    PADDLE_TRY_STATUS(
        files.rename(fmt::format("{}/{}", folder, name), fmt::format("{}/{}", unfinished, name)));
  }
  PADDLE_TRY_STATUS(files.sync_directory(unfinished));
  PADDLE_TRY_STATUS(files.sync_directory(folder));
  PADDLE_TRY_STATUS(files.rename(unfinished, to));
  return files.sync_directory(folder);
}

}  // namespace

Status finish_interrupted(const std::string& folder, FileSystem& files) {
  PADDLE_TRY_STATUS(clear_replaced(files, folder));
  PADDLE_TRY(const std::vector<std::string> names, files.list(folder));
  for (const std::string& name : names) {
    if (!name.starts_with(kEarlier) || !name.ends_with(kUnfinished)) continue;
    const std::string to = folder + "/" + name.substr(0, name.size() - kUnfinished.size());
    PADDLE_TRY_STATUS(move_all(files, folder, to));
    log_warning("the snapshots of {} were being moved; now all of them are in {}", folder, to);
  }
  return {};
}

Result<std::optional<SnapshotReader>> take_newest_whole(const std::string& folder,
                                                        FileSystem& files,
                                                        std::string* explanation) {
  if (explanation != nullptr) explanation->clear();
  PADDLE_TRY(const std::vector<std::string> names, snapshot_names(folder, files));
  std::vector<Candidate> candidates;
  candidates.reserve(names.size());
  for (const std::string& name : names) candidates.push_back(candidate(files, folder, name));
  std::ranges::sort(candidates, std::greater<>());
  std::vector<Damage> damaged;
  for (const Candidate& one : candidates) {
    const std::string directory = folder + "/" + one.name;
    auto snapshot = SnapshotReader::open(directory, files);
    if (snapshot) {
      add_disguised(files, folder, names, one.name, damaged);
      if (explanation != nullptr) *explanation = describe(folder, one.name, damaged);
      PADDLE_TRY_STATUS(set_aside(files, folder, damaged));
      if (!damaged.empty())
        log_warning("training continues from {}, the newest whole one", directory);
      return std::optional(*std::move(snapshot));
    }
    if (snapshot.error().code != Errc::kData) return std::move(snapshot).error();
    damaged.push_back({one.name, std::move(snapshot).error()});
  }
  if (damaged.empty()) return std::optional<SnapshotReader>();
  return Error{Errc::kData,
               fmt::format("no snapshot in {} is whole: {}", folder, damaged.front().error.message),
               "the next paddlectl train --resume copies a whole one from another node or from "
               "output/, if one exists; to start from the beginning: paddlectl train with another "
               "--name, or paddle train with --from_scratch instead of --resume"};
}

Result<std::string> set_snapshots_aside(const std::string& folder, FileSystem& files) {
  PADDLE_TRY(const std::vector<std::string> names, snapshot_names(folder, files));
  if (names.empty()) return std::string();
  const auto numbered = [&](int number) {
    return fmt::format("{}/{}{}", folder, kEarlier, number);
  };
  int number = 1;
  while (files.exists(numbered(number))) ++number;
  PADDLE_TRY_STATUS(files.make_directory(numbered(number) + std::string(kUnfinished)));
  PADDLE_TRY_STATUS(move_all(files, folder, numbered(number)));
  return numbered(number);
}

}  // namespace paddle::snapshot
