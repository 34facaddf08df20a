#include "cli/job/results.h"

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <map>
#include <set>

#include <fmt/format.h>

#include "base/safe_path.h"
#include "base/sha256.h"
#include "base/text.h"
#include "cli/job/fetch_record.h"
#include "cli/job/folders.h"
#include "cli/job/result_files.h"
#include "cli/watch/process_state.h"

namespace paddle::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kStillThere =
    "the results are still on the nodes: paddlectl fetch --output <folder>";
constexpr std::size_t kNamesShownMax = 5;

// The files beside a log with its offset after rotation and the times of its lines, which only the
// agent reads.
bool is_log_index(const std::string& path) {
  return path.ends_with(".log.base") || path.ends_with(".log.times") ||
         path.ends_with(".log.times.1");
}

// A file to fetch from one node.
struct WantedFile {
  std::string folder, name;  // on the node
  std::string target;
  std::uint64_t size = 0;
};

bool is_here_in_size(const fs::path& target, std::uint64_t size) {
  std::error_code error;
  return fs::file_size(target, error) == size && !error;
}

bool is_here_in_size(const WantedFile& file) {
  return is_here_in_size(file.target, file.size);
}

// Removes the files that are here with the same content. Only their folders on the node are read.
Status remove_known(Member& member, std::vector<WantedFile>& files) {
  std::set<std::string> folders;
  for (const WantedFile& file : files) {
    if (is_here_in_size(file))
      folders.insert(fs::path(file.folder + "/" + file.name).parent_path());
  }
  std::map<std::string, std::string> hashes;  // by path on the node
  for (const std::string& folder : folders) {
    PADDLE_TRY(const auto entries, member.client->list(folder));
    for (const remote::FileEntry& entry : entries) hashes[folder + "/" + entry.path] = entry.sha256;
  }
  std::erase_if(files, [&](const WantedFile& file) {
    const auto known = hashes.find(file.folder + "/" + file.name);
    if (known == hashes.end() || !is_here_in_size(file)) return false;
    const auto digest = sha256_of_file(file.target);
    return digest && to_hex(*digest) == known->second;
  });
  return {};
}

Status add_wanted(Member& member, const std::string& remote, const fs::path& local,
                  const std::vector<remote::FileEntry>& entries, std::vector<WantedFile>& wanted) {
  for (const remote::FileEntry& entry : entries) {
    if (is_log_index(entry.path)) continue;
    auto target = fetch_target(local, entry.path, kStillThere);
    if (!target) return std::move(target).error().with("node " + member.spec.name);
    wanted.push_back({remote, entry.path, *std::move(target), entry.size});
  }
  return {};
}

// Tells what an earlier fetch has not brought of them.
void add_left(const LeftSnapshots& left, const fs::path& folder, FetchStats& stats) {
  std::set<std::string> missing;
  for (const remote::FileEntry& file : left.files) {
    if (is_here_in_size(folder / file.path, file.size)) continue;
    missing.insert(snapshot_of(file.path));
    stats.missing_bytes += file.size;
  }
  stats.left = left.names;
  stats.missing.assign(missing.begin(), missing.end());
}

// Says what comes, and refuses when there is no room for it.
Status check_space(Context& context, const fs::path& folder, std::size_t files,
                   std::uint64_t bytes) {
  std::error_code error;
  const fs::space_info space = fs::space(folder, error);
  if (error || files == 0) return {};
  const std::string where = shown_path(context, folder.string());
  if (space.available < bytes) {
    return Error{
        Errc::kResource,
        fmt::format("no room for {} of results: {} has {} free, {} too little", human_bytes(bytes),
                    where, human_bytes(space.available), human_bytes(bytes - space.available)),
        "free some space, choose another --output, or fetch less: --pass last, --logs"};
  }
  context.console.note(fmt::format("fetching {}, {}; {} free in {}", counted(files, "file"),
                                   human_bytes(bytes), human_bytes(space.available), where));
  return {};
}

void note_doubled(Context& context, const ResultFiles& found) {
  if (found.doubled.empty()) return;
  const std::size_t shown = std::min(kNamesShownMax, found.doubled.size());
  context.console.note(fmt::format(
      "{} saved on several nodes under one name, only that of the lowest trainer is fetched: {}{}; "
      "give each trainer's file a name of its own, with its PADDLE_TRAINER_ID, to keep all",
      counted(found.doubled.size(), "file"),
      fmt::join(found.doubled.begin(), found.doubled.begin() + static_cast<std::ptrdiff_t>(shown),
                ", "),
      shown < found.doubled.size() ? ", ..." : ""));
}

// Remembers on each node what is here now. Files of a job that runs may still change.
void record_fetched(Context& context, ClusterSession& session, const std::string& job,
                    const std::vector<ProcessOnNode>& processes, const ResultFiles& found,
                    const fs::path& folder) {
  if (std::ranges::any_of(processes, is_running, &ProcessOnNode::status)) return;
  const Status recorded = session.each([&](Member& member) -> Status {
    const std::size_t index = session.index_of(member);
    if (found.of_member[index].empty()) return {};
    const std::int64_t started = latest_start(processes, index, job);
    FetchRecord record = read_fetch_record(*member.client, job, started);
    for (const remote::FileEntry& file : found.of_member[index])
      record.sizes[file.path] = file.size;
    return write_fetch_record(*member.client, job, record, folder.string());
  });
  if (!recorded && session.unreachable() == 0)
    context.console.note("not recorded as fetched: " + recorded.error().message);
}

}  // namespace

std::string shown_path(const Context& context, const std::string& path) {
  const fs::path inside = fs::path(path).lexically_relative(context.directory);
  const bool below = !context.console.json() && !inside.empty() && *inside.begin() != "..";
  return (below ? inside : fs::path(path).lexically_normal()).string();
}

Status make_folder(const fs::path& folder, const std::string& hint) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (!error) return {};
  return Error{Errc::kResource, fmt::format("create {}: {}", folder.string(), error.message()),
               hint};
}

Result<std::string> fetch_target(const fs::path& folder, const std::string& name,
                                 const std::string& hint) {
  if (auto safe = SafePath::parse(name); !safe) return std::move(safe).error();
  const fs::path target = folder / name;
  PADDLE_TRY_STATUS(make_folder(target.parent_path(), hint));
  return target.string();
}

Result<FetchStats> fetch_results(Context& context, ClusterSession& session, const std::string& job,
                                 const std::string& output,
                                 const std::optional<PassChoice>& passes) {
  PADDLE_TRY_STATUS(check_job_name(job));
  const fs::path folder = fs::path(output) / job;
  PADDLE_TRY_STATUS(make_folder(folder, kStillThere));
  const auto processes = session.processes(job);
  // A node that fails keeps none of the others from giving its files; the error comes at the end.
  ResultFiles found;
  Status listed = passes ? list_results(session, job, processes, found) : Status();
  FetchStats stats;
  if (passes) {
    LeftSnapshots left;
    PADDLE_TRY_STATUS(keep_passes(context, session, job, processes, *passes, found, left));
    add_left(left, folder, stats);
    note_doubled(context, found);
  }
  found.of_member.resize(session.members().size());
  std::vector<std::vector<WantedFile>> wanted(session.members().size());
  std::atomic<std::size_t> files = 0;
  Status prepared = session.each([&](Member& member) -> Status {
    const std::size_t index = session.index_of(member);
    const std::string logs = node_folder(job, member.node);
    PADDLE_TRY(const auto entries, member.client->list_sizes(logs));
    PADDLE_TRY_STATUS(add_wanted(member, logs, folder / fmt::format("node_{}", member.node),
                                 entries, wanted[index]));
    PADDLE_TRY_STATUS(
        add_wanted(member, output_folder(job), folder, found.of_member[index], wanted[index]));
    files += wanted[index].size();
    return remove_known(member, wanted[index]);
  });
  std::uint64_t bytes = 0;
  for (auto& of_node : wanted) {
    std::ranges::stable_sort(
        of_node, {}, [](const WantedFile& file) { return file.name.ends_with("MANIFEST"); });
    stats.files_fetched += of_node.size();
    for (const WantedFile& file : of_node) bytes += file.size;
  }
  stats.files = files;
  PADDLE_TRY_STATUS(check_space(context, folder, stats.files_fetched, bytes));
  const Status fetched = session.each([&](Member& member) {
    std::vector<remote::FetchItem> items;
    for (const WantedFile& file : wanted[session.index_of(member)])
      items.push_back({file.folder + "/" + file.name, file.target});
    return member.client->fetch(items);
  });
  for (const Status& status : {listed, prepared, fetched}) {
    if (!status) return status.error();
  }
  if (passes) record_fetched(context, session, job, processes, found, folder);
  return stats;
}

void note_left_snapshots(Context& context, const std::string& job, const std::string& output,
                         const FetchStats& stats) {
  if (stats.missing.empty()) return;
  const std::string folder = shown_path(context, output);
  context.console.note(
      fmt::format("{} ({}) {} on the nodes; to fetch: paddlectl fetch --pass all --job {}{}",
                  counted(stats.missing.size(), "snapshot"), human_bytes(stats.missing_bytes),
                  stats.missing.size() == 1 ? "stays" : "stay", job,
                  folder == "output" ? "" : " --output " + folder));
}

}  // namespace paddle::cli
