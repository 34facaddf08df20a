#include "cli/report/volume.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <map>
#include <set>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/fd.h"
#include "base/safe_path.h"
#include "base/text.h"
#include "base/tree.h"
#include "cli/console/json.h"
#include "cli/job/folders.h"
#include "cli/job/result_files.h"
#include "cli/job/whole_snapshot.h"
#include "cli/report/record.h"
#include "cli/watch/metrics_line.h"

namespace paddle::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kNode = "node_";
constexpr const char* kProcesses = "processes.jsonl";
constexpr std::size_t kConfigurationMax = 1U << 20U;
constexpr std::size_t kMachineBytesMax = 64U << 10U;
constexpr std::size_t kCopyBytes = 1U << 20U;
constexpr std::size_t kBestBytesMax = 64;

// The folder.

std::vector<fs::path> folders_in(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    std::error_code ignored;
    if (fs::is_directory(at->symlink_status(ignored))) found.push_back(at->path());
  }
  std::ranges::sort(found);
  return found;
}

bool holds_results(const fs::path& folder) {
  return std::ranges::any_of(folders_in(folder), [](const fs::path& inside) {
    const std::string name = inside.filename();
    return name.starts_with(kNode) || parse_snapshot_name(name).has_value();
  });
}

// "word2vec" for output/word2vec, and for word2vec/output.
VolumeJob named(const fs::path& folder) {
  const fs::path plain = fs::absolute(folder).lexically_normal() / "";
  const fs::path own = plain.parent_path();
  const std::string name = own.filename();
  return {own.string(), name == "output" ? own.parent_path().filename().string() : name};
}

// Copying.

// The files of a job on a volume, in the order of their paths.
Result<std::vector<TreeEntry>> list_files(int folder) {
  std::vector<TreeEntry> files;
  TreeWalk walk([&](const TreeEntry& entry, int, const std::string&) -> Result<bool> {
    if (is_hidden(entry.path)) return false;
    if (entry.is_folder())
      return !(entry.path.starts_with("pass-") && entry.path.ends_with(".tmp"));
    const bool is_given = entry.path.starts_with(kNode) || may_be_given(entry.path);
    if (entry.kind == TreeEntry::Kind::kFile && is_given) files.push_back(entry);
    return true;
  });
  PADDLE_TRY_STATUS(walk.run(folder, ""));
  return files;
}

std::vector<MetricsLine> metrics_in(const std::string& folder, const std::string& path) {
  std::vector<MetricsLine> metrics;
  each_line(folder, path, [&](const std::string& line) {
    if (auto parsed = parse_metrics(line)) metrics.push_back(*std::move(parsed));
  });
  return metrics;
}

// Whether `folder` has the file with the same size and time.
bool has_copy(int folder, const std::string& name, const TreeEntry& file) {
  const auto here = entry_at(folder, name, file.path);
  return here && here->kind == TreeEntry::Kind::kFile && here->size == file.size &&
         here->mtime_ns == file.mtime_ns;
}

// Returns whether there was anything to copy.
Result<bool> copy_file(int from, const TreeEntry& file, TreeWriter& to) {
  PADDLE_TRY(const SafePath path, SafePath::parse(file.path));
  const std::string name = fs::path(file.path).filename();
  PADDLE_TRY(const UniqueFd above, to.open_above(file.path));
  if (has_copy(above.get(), name, file)) return false;
  PADDLE_TRY(const UniqueFd source, path.open_read(from));
  PADDLE_TRY(DraftFile draft, DraftFile::create(above.get(), 0644));
  std::vector<std::byte> buffer(kCopyBytes);
  for (;;) {
    const ssize_t got = ::read(source.get(), buffer.data(), buffer.size());
    if (got < 0) return system_error(Errc::kData, "read " + file.path);
    if (got == 0) break;
    PADDLE_TRY_STATUS(
        write_all(draft.fd(), {buffer.data(), static_cast<std::size_t>(got)}, TimePoint::max()));
  }
  PADDLE_TRY_STATUS(draft.commit(name, 0644, file.mtime_ns));
  return true;
}

// Removes the snapshots that are not asked for from `files`, and names them in `stats`.
Result<std::set<std::string>> keep_chosen(Context& context, const VolumeJob& from,
                                          const PassChoice& choice, std::vector<TreeEntry>& files,
                                          FetchStats& stats) {
  std::set<std::string> paths;
  for (const TreeEntry& file : files) paths.insert(file.path);
  const std::vector<std::string> names = snapshots_among(paths);
  const auto best = read_file(from.folder + "/BEST", kBestBytesMax);
  const std::vector<std::uint64_t> by_merit =
      passes_by_merit(metrics_in(from.folder, metrics_path("node_0/train.log")), best ? *best : "");
  PADDLE_TRY(std::set<std::string> chosen,
             choose_snapshots(context, kOnVolume, from.job, choice, names, by_merit));
  const std::set<std::string> deltas = chosen;
  for (const std::string& name : deltas) {
    const std::string base =
        base_snapshot_of(snapshot::decode_manifest(manifest_here(from.folder + "/" + name)));
    if (!base.empty()) chosen.insert(base);
  }
  for (const std::string& name : names) {
    if (!chosen.contains(name)) stats.left.push_back(name);
  }
  std::erase_if(files, [&](const TreeEntry& file) {
    const std::string snapshot = snapshot_of(file.path);
    return !snapshot.empty() && !chosen.contains(snapshot);
  });
  return chosen;
}

Status check_room(Context& context, const fs::path& folder, const std::vector<TreeEntry>& files) {
  std::vector<remote::FetchItem> wanted;
  for (const TreeEntry& file : files) {
    std::error_code ignored;
    if (fs::exists(folder / file.path, ignored)) continue;
    wanted.push_back({file.path, file.path, file.size, "", nullptr});
  }
  if (wanted.empty()) return {};
  const std::string where = shown_path(context, folder.string());
  DiskRoom room(folder, where);
  PADDLE_TRY_STATUS(room.reserve("the volume", wanted));
  context.console.note(fmt::format("copying {} files, {}; {} free in {}", wanted.size(),
                                   human_bytes(room.reserved_bytes()),
                                   human_bytes(room.free_bytes()), where));
  return {};
}

// Records of processes.

struct VolumeProcess {
  std::string node, role, state, log;
  bool failed = false;
  std::int64_t started_unix_ms = 0, ended_unix_ms = 0, incarnation = 1;
};

// "trainer-3" of "I1129 18:09:09.861016 trainer-3] ..."; "" if no line has a name.
std::string role_in_log(const std::string& folder, const std::string& log) {
  std::string role;
  each_line(folder, log, [&](const std::string& line) {
    const std::size_t end = line.find("] ");
    const std::size_t begin = line.rfind(' ', end);
    if (!role.empty() || end == line.npos || begin == line.npos) return;
    const std::string word = line.substr(begin + 1, end - begin - 1);
    if (word.starts_with("trainer-") || word.starts_with("pserver-")) role = word;
  });
  return role;
}

// A process as its log and its metrics show it.
VolumeProcess from_log(const std::string& folder, const std::string& node,
                       const std::string& file) {
  VolumeProcess process;
  process.node = node;
  process.state = "ended, or not known";
  process.log = node + "/" + file;
  process.role = role_in_log(folder, process.log);
  if (process.role.empty()) {
    process.role =
        (file.starts_with("server") ? "pserver-" : "trainer-") + node.substr(kNode.size());
  }
  struct stat info {};
  if (::lstat((folder + "/" + process.log).c_str(), &info) == 0) {
    process.ended_unix_ms = std::int64_t{info.st_mtim.tv_sec} * 1000;
  }
  process.started_unix_ms = process.ended_unix_ms;
  for (const MetricsLine& line : metrics_in(folder, metrics_path(process.log))) {
    if (line.unix_ms <= 0) continue;
    process.started_unix_ms = std::min(process.started_unix_ms, line.unix_ms);
  }
  return process;
}

// The newest line about each process of a node, or else its logs.
void add_processes(const std::string& folder, const std::string& node,
                   std::map<std::string, VolumeProcess>& processes) {
  bool has_records = false;
  for (const FlatRecord& line : read_flat_records(folder + "/" + node + "/" + kProcesses)) {
    const std::string log = line.text("log");
    if (!log.starts_with(node + "/") || line.text("role").empty()) continue;
    const auto whole = [&](const char* key) { return static_cast<std::int64_t>(line.number(key)); };
    has_records = true;
    processes[line.text("role")] = {line.text("node"),         line.text("role"),
                                    line.text("state"),        log,
                                    line.number("failed") > 0, whole("started_unix_ms"),
                                    whole("ended_unix_ms"),    whole("incarnation")};
  }
  if (has_records) return;
  std::error_code error;
  for (fs::directory_iterator at(folder + "/" + node, error), end; !error && at != end;
       at.increment(error)) {
    const std::string file = at->path().filename();
    const bool is_process = file.starts_with("server") || file.starts_with("train");
    if (!is_process || !file.ends_with(".log")) continue;
    VolumeProcess process = from_log(folder, node, file);
    processes.try_emplace(process.role, process);
  }
}

// Pservers, then trainers, each by number.
std::pair<std::string, std::uint32_t> order_of(const std::string& role) {
  const std::size_t dash = role.find('-');
  std::uint32_t number = 0;
  std::from_chars(role.data() + std::min(dash + 1, role.size()), role.data() + role.size(), number);
  return {role.substr(0, dash), number};
}

std::string line_of(const VolumeProcess& process) {
  return Json::object({{"node", process.node},
                       {"role", process.role},
                       {"state", process.state},
                       {"failed", process.failed ? 1 : 0},
                       {"started_unix_ms", process.started_unix_ms},
                       {"ended_unix_ms", process.ended_unix_ms},
                       {"incarnation", process.incarnation},
                       {"log", process.log}})
             .text() +
         "\n";
}

// The job's configuration, which each snapshot has too.
Status write_configuration(const fs::path& folder) {
  std::error_code ignored;
  if (fs::exists(folder / "job.toml", ignored)) return {};
  std::set<std::string> names;
  for (const fs::path& inside : folders_in(folder))
    names.insert(inside.filename().string() + "/MANIFEST");
  const std::vector<std::string> snapshots = snapshots_among(names);
  if (snapshots.empty()) return {};
  const auto text = read_file(folder / snapshots.back() / "model/job.toml", kConfigurationMax);
  if (!text) return {};
  return replace_file(folder / kConfigurationOfNode, as_bytes(*text), 0644);
}

}  // namespace

Result<VolumeJob> find_on_volume(const std::string& directory, const std::string& job) {
  const fs::path top = directory;
  std::vector<VolumeJob> found;
  for (const fs::path& own : {top, top / "output"}) {
    if (!found.empty() || !holds_results(own)) continue;
    found.push_back(named(own));
    if (!job.empty()) found.back().job = job;
  }
  if (found.empty()) {
    for (const fs::path& parent : {top / "output", top}) {
      for (const fs::path& folder : folders_in(parent)) {
        for (const fs::path& results : {folder, folder / "output"}) {
          const VolumeJob one = named(results);
          if (holds_results(results) && (job.empty() || one.job == job)) found.push_back(one);
        }
      }
    }
  }
  if (found.size() == 1) {
    PADDLE_TRY_STATUS(check_job_name(found.front().job));
    return found.front();
  }
  if (found.empty()) {
    return Error{Errc::kUsage,
                 fmt::format("{} has no results{}", directory, job.empty() ? "" : " of job " + job),
                 "name the folder that has node_0/ and pass-00000/ in it, or one with output/JOB/"};
  }
  std::vector<std::string> names;
  for (const VolumeJob& one : found) names.push_back(one.job);
  return Error{Errc::kUsage,
               fmt::format("{} has results of several jobs: {}", directory, fmt::join(names, ", ")),
               "name one: --job " + names.front()};
}

Result<FetchStats> fetch_from_volume(Context& context, const VolumeJob& from,
                                     const std::string& output,
                                     const std::optional<PassChoice>& passes) {
  PADDLE_TRY(const fs::path folder,
             make_output_folder(context, output, from.job, "choose another --output"));
  PADDLE_TRY(const OutputLock lock, OutputLock::take(context, folder));
  const UniqueFd source(::open(from.folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!source) return system_error(Errc::kUsage, "open " + from.folder);
  PADDLE_TRY(std::vector<TreeEntry> files, list_files(source.get()));
  FetchStats stats;
  std::set<std::string> snapshots;
  if (passes) {
    PADDLE_TRY(snapshots, keep_chosen(context, from, *passes, files, stats));
  } else {
    std::erase_if(files, [](const TreeEntry& file) { return !file.path.starts_with(kNode); });
  }
  stats.files = files.size();
  std::error_code ignored;
  if (fs::equivalent(from.folder, folder, ignored)) return stats;
  PADDLE_TRY_STATUS(check_room(context, folder, files));
  // A snapshot is complete once it has its MANIFEST.
  std::ranges::stable_sort(files, {},
                           [](const TreeEntry& file) { return file.path.ends_with("MANIFEST"); });
  const UniqueFd target(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!target) return system_error(Errc::kResource, "open " + folder.string());
  TreeWriter writer(target.get());
  for (const TreeEntry& file : files) {
    if (context.interrupted()) return Error{Errc::kInterrupted, "interrupted"};
    PADDLE_TRY(const bool is_new, copy_file(source.get(), file, writer));
    stats.files_fetched += is_new ? 1 : 0;
  }
  for (const std::string& snapshot : snapshots) {
    const std::string damage = damage_here((folder / snapshot).string());
    if (damage.empty() || !fs::exists(folder / snapshot / "MANIFEST", ignored)) continue;
    return Error{Errc::kData,
                 fmt::format("{} of {}: {}; it was copied as it is", snapshot, from.folder, damage),
                 "another pass may be whole: --pass all, then paddle verify"};
  }
  return stats;
}

Status write_records_of_volume(const std::string& folder) {
  std::map<std::string, VolumeProcess> processes;
  std::string machines;
  for (const fs::path& inside : folders_in(folder)) {
    const std::string node = inside.filename();
    if (!node.starts_with(kNode)) continue;
    add_processes(folder, node, processes);
    const auto machine = read_file(inside / "machines.jsonl", kMachineBytesMax);
    if (machine) machines += *machine;
  }
  std::vector<VolumeProcess> ordered;
  for (const auto& [role, process] : processes) ordered.push_back(process);
  std::ranges::sort(ordered, {}, [](const VolumeProcess& p) { return order_of(p.role); });
  std::string text;
  for (const VolumeProcess& process : ordered) text += line_of(process);
  PADDLE_TRY_STATUS(replace_file(folder + "/" + kProcesses, as_bytes(text), 0644));
  PADDLE_TRY_STATUS(replace_file(folder + "/machines.jsonl", as_bytes(machines), 0644));
  return write_configuration(folder);
}

}  // namespace paddle::cli
